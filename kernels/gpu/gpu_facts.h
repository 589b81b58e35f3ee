// What a GPU driver and its runtime answered when they were asked what this machine has. Plain
// values, so that what follows from them (gpu_check.h, memory_budget.h) is tested without a GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

// Of a GPU, the same in every process that sees it.
using GpuUuid = std::array<std::byte, 16>;

struct GpuFacts {
  std::string name;  // "NVIDIA H200"
  GpuUuid uuid{};
  int compute_major = 0;  // compute capability 9.0: 9 and 0
  int compute_minor = 0;
  int num_multiprocessors = 0;
  uint64_t total_bytes = 0;
  // Whether this process may use it: an error's name and words, empty where it may.
  std::string refusal;
};

// The instructions that multiply on a GPU, which its bits depend on.
enum class GpuProducts {
  kPortable,  // mma.sync, which every GPU accepted here has
  kHopper,    // wgmma, which compute capability 9.0 alone has
  // The same instructions and bits; large products are fetched in bulk.
  kPipelined,
  // The same, and what is FP8 on both sides (ActivationFormat::kFp8) by an instruction of its own,
  // which has other bits; the ways before make BF16 numbers of it.
  kFp8,
};

struct DriverFacts {
  // Of CUDA, as 1000 * major + 10 * minor. The newest that the driver serves; 0: no driver here.
  int driver_version = 0;
  int runtime_version = 0;  // that this program was built with
  // What the runtime said when it was asked for the GPUs: an error's name and words, empty where it
  // answered.
  std::string failure;
  std::vector<GpuFacts> gpus;
  // CUDA_VISIBLE_DEVICES, where it is set: it hides GPUs.
  std::string visible_devices;
};

}  // namespace sluice
