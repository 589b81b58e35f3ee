// Whether a GPU will do, and in whose words it is said where none does. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/gpu/gpu_facts.h"

namespace sluice {

// The oldest that the kernels run on: 8.0, Ampere.
inline constexpr int kLeastComputeMajor = 8;

// Whether GPU `index` of the machine can be used.
//   UNAVAILABLE          the driver is missing or did not answer, or the GPU refuses this process
//   FAILED_PRECONDITION  the driver is older than the program's CUDA; the GPU is too old
//   NOT_FOUND            there is no GPU, or fewer than asked for
// Each says what was found and what would help.
absl::Status CheckGpu(const DriverFacts& facts, int index);

// "mma", "wgmma", "wgmma_pipeline", "wgmma_fp8".
std::string Name(GpuProducts products);

// "auto" (none: the fastest that a GPU has) or one of those names, which a GPU at hand need not have.
// INVALID_ARGUMENT otherwise, naming them.
absl::StatusOr<std::optional<GpuProducts>> ParseGpuProducts(const std::string& text);

// How a GPU can multiply, from slow to fast.
std::vector<GpuProducts> ProductsOf(const GpuFacts& gpu);

// Those of them up to `fastest`. INVALID_ARGUMENT where the GPU does not have that one, naming those
// that it has.
absl::StatusOr<std::vector<GpuProducts>> ProductsUpTo(const GpuFacts& gpu,
                                                      std::optional<GpuProducts> fastest);

// "13.0" for 13000.
std::string CudaVersionText(int version);
// "GPU-0a1b..." as nvidia-smi writes it.
std::string UuidText(const GpuUuid& uuid);
// "NVIDIA H200 (compute capability 9.0, 139.8 GiB, 132 multiprocessors)".
std::string GpuText(const GpuFacts& gpu);

}  // namespace sluice
