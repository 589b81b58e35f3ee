// Chooses among the kinds of devices that this build has. Nothing above kernels/ knows which it
// got.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/gpu/gpu_facts.h"

namespace sluice {

enum class DeviceKind { kCpu, kCuda };

struct DeviceId {
  DeviceKind kind = DeviceKind::kCpu;
  // Of a GPU, from 0; none where any will do: the first, or where several processes compute, one
  // GPU after another.
  std::optional<int> index;

  bool operator==(const DeviceId&) const = default;
};

// "cpu", "cuda" or "cuda:1"; ParseDevice reads it back.
std::string Name(const DeviceId& device);

// "cpu", or "cuda" or "cuda:1" for any or the second GPU. INVALID_ARGUMENT where it is neither, or
// where this build lacks that kind of device, naming those that it has. Whether there is such a GPU
// is found out by MakeBackend.
absl::StatusOr<DeviceId> ParseDevice(const std::string& text);

// The device of the `number`-th of the processes that `device` was asked for, on a machine of
// `num_gpus`: where any GPU will do they take turns.
DeviceId DeviceOfProcess(const DeviceId& device, int number, int num_gpus);

// The most of `count` such processes that compute on one device.
int ProcessesOnDevice(const DeviceId& device, int count, int num_gpus);

// GPUs that this process sees; 0 in a build without CUDA.
int NumGpus();

struct DeviceOptions {
  DeviceId device;
  CpuBackendOptions cpu;
  // The fastest to multiply with on a GPU; none: the fastest that it has. What is left out is not
  // tried at all.
  std::optional<GpuProducts> gpu_products;
  // Does CheckGpuProducts in another process, where a kernel that never ends, or takes its process
  // with it, fails a check as wrong numbers do (services/model_server/gpu_faults.h). Null: it
  // is done in this one.
  std::function<absl::Status(int index, GpuProducts products)> check_gpu;
  // Those of GpuBackendOptions (kernels/gpu/gpu_devices.h).
  std::function<void(absl::Status)> on_gpu_lost, on_gpu_unrecorded;
};

// Threads for arithmetic. More than any machine has cores; so many threads start on most.
inline constexpr int kMostThreads = 1024;

// Whether this machine has it and it will do, in milliseconds: CheckGpu (kernels/gpu/gpu_check.h).
absl::Status CheckDevice(const DeviceId& device);

// Whether GPU `index` computes as it should with these products, batches of all sizes included: the
// self-check, whose failures it returns; otherwise errors of CheckDevice, of ProductsUpTo
// (kernels/gpu/gpu_check.h) and of MakeGpuBackend.
absl::Status CheckGpuProducts(int index, GpuProducts products);

// A backend that has passed its self-check on this machine (kernels/device/self_check.h). Where the
// instructions asked for, or the fastest, don't, the next ones below are taken, and `warn` is told
// why. INTERNAL where none does; INVALID_ARGUMENT for a number of threads that is none of 0 to
// kMostThreads, and for GPU instructions that the device does not have; otherwise the status of
// CheckDevice, or of a device that can't be used all the same (MakeGpuBackend in
// kernels/gpu/gpu_devices.h).
// Thread-safe; instructions and each GPU are checked once a process.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(
    const DeviceOptions& options, absl::FunctionRef<void(const std::string& reason)> warn);

// The last of `sets`, which get faster, that `check` lets pass; tells `warn` of those that it does
// not. The last failure where there is none.
absl::StatusOr<InstructionSet> ChooseInstructions(
    absl::Span<const InstructionSet> sets, absl::FunctionRef<absl::Status(InstructionSet)> check,
    absl::FunctionRef<void(const std::string& reason)> warn);

// The same of a GPU's products.
absl::StatusOr<GpuProducts> ChooseProducts(absl::Span<const GpuProducts> known,
                                           absl::FunctionRef<absl::Status(GpuProducts)> check,
                                           absl::FunctionRef<void(const std::string& reason)> warn);

}  // namespace sluice
