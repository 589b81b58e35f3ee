#include "tests/gpu/emulator/runtime/device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/ptx/parser.h"
#include "tests/gpu/emulator/runtime/fat_binary.h"
#include "tests/gpu/emulator/runtime/traffic_report.h"

namespace sluice::cuda::emulator {
namespace {

// Without the kernel and its parameters.
LaunchRequest RequestOf(const cudaLaunchConfig_t& config) {
  LaunchRequest request;
  request.blocks = config.gridDim.x;
  request.threads = static_cast<int>(config.blockDim.x);
  request.shared_bytes = config.dynamicSmemBytes;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeClusterDimension) {
      request.cluster = static_cast<int>(attribute.val.clusterDim.x);
    } else if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      request.may_overlap = attribute.val.programmaticStreamSerializationAllowed != 0;
    }
  }
  return request;
}

// `shared_bytes`: that the kernel was allowed.
bool CanBeLaunched(const cudaLaunchConfig_t& config, const LaunchRequest& request,
                   size_t shared_bytes) {
  const bool is_one_dimensional = config.gridDim.y == 1 && config.gridDim.z == 1 &&
                                  config.blockDim.y == 1 && config.blockDim.z == 1;
  return is_one_dimensional && request.shared_bytes <= shared_bytes &&
         request.cluster <= kMostClusterBlocks && request.blocks != 0 &&
         request.blocks % request.cluster == 0 &&
         request.threads <= request.program->function.max_threads;
}

}  // namespace

void Say(const std::string& what) { std::fprintf(stderr, "emulated GPU: %s\n", what.c_str()); }

Device::Device() : counts_traffic_(std::getenv("SLUICE_EMULATED_TRAFFIC") != nullptr) {
  if (counts_traffic_) std::atexit([] { Device::Get().PrintTraffic(); });
}

Device& Device::Get() {
  static auto& device = *new Device;
  return device;
}

void Device::AddKernels(const void* fat_binary) {
  const std::lock_guard lock(mutex_);
  programs_[fat_binary];
}

void Device::AddKernel(const void* fat_binary, const void* host_function, const char* name) {
  const std::lock_guard lock(mutex_);
  Kernel& kernel = kernels_[host_function];
  kernel.fat_binary = fat_binary;
  kernel.name = name;
}

cudaError_t Device::Prepare(Kernel& kernel) {
  if (kernel.program != nullptr) return cudaSuccess;
  auto& programs = programs_[kernel.fat_binary];
  if (programs.empty()) {
    const auto texts = PtxOf(kernel.fat_binary);
    if (!texts.ok()) {
      Say(std::string(texts.status().message()));
      return cudaErrorNoKernelImageForDevice;
    }
    for (const std::string& text : *texts) {
      absl::StatusOr<Module> module = ParsePtx(text);
      auto found = module.ok() ? ProgramsOf(*std::move(module)) : module.status();
      if (!found.ok()) {
        Say(std::string(found.status().message()));
        return cudaErrorInvalidPtx;
      }
      programs.merge(*found);
    }
  }
  const auto found = programs.find(kernel.name);
  if (found == programs.end()) return cudaErrorInvalidDeviceFunction;
  kernel.program = found->second.get();
  return cudaSuccess;
}

cudaError_t Device::AllowSharedBytes(const void* host_function, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto kernel = kernels_.find(host_function);
  if (kernel == kernels_.end()) return cudaErrorInvalidDeviceFunction;
  if (bytes > kMostSharedBytes) return cudaErrorInvalidValue;
  kernel->second.shared_bytes = std::max(bytes, kSharedBytes);
  return cudaSuccess;
}

cudaError_t Device::Launch(const cudaLaunchConfig_t& config, const void* host_function,
                           void** arguments) {
  const std::lock_guard lock(mutex_);
  if (lasting_error_ != cudaSuccess) return lasting_error_;
  const auto kernel = kernels_.find(host_function);
  if (kernel == kernels_.end()) return cudaErrorInvalidDeviceFunction;
  if (const cudaError_t error = Prepare(kernel->second); error != cudaSuccess) return error;
  LaunchRequest request = RequestOf(config);
  request.program = kernel->second.program;
  if (!CanBeLaunched(config, request, kernel->second.shared_bytes)) {
    Say(absl::StrCat(kernel->second.name, " cannot be launched with ", request.blocks,
                     " blocks of ", request.threads, " threads and ", request.shared_bytes,
                     " bytes of shared memory in clusters of ", request.cluster));
    return cudaErrorInvalidConfiguration;
  }
  if (counts_traffic_) request.traffic = &kernel->second.traffic;
  // Of kernels with one parameter: how many bytes it has says their PTX.
  const size_t bytes = request.program->function.parameter_bytes;
  const auto* const begin = static_cast<const std::byte*>(arguments[0]);
  request.parameters.assign(begin, begin + bytes);
  AddToStream(config.stream, std::move(request));
  return cudaSuccess;
}

void Device::PrintTraffic() {
  const std::lock_guard lock(mutex_);
  for (const auto& [function, kernel] : kernels_) {
    if (kernel.traffic.launches() == 0) continue;
    const std::string report = TrafficReport(kernel.name, kernel.traffic);
    std::fputs(report.c_str(), stderr);
  }
}

cudaError_t Device::lasting_error() {
  const std::lock_guard lock(mutex_);
  return lasting_error_;
}

}  // namespace sluice::cuda::emulator
