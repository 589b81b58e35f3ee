#include "kernels/cuda/emulator/runtime/device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/emulator/ptx/parser.h"
#include "kernels/cuda/emulator/runtime/fat_binary.h"

namespace sluice::cuda::emulator {
namespace {

// What is larger costs nothing until it is used.
constexpr size_t kMostPoisoned = size_t{64} << 20;

thread_local cudaStream_t capturing = nullptr;

void Say(const std::string& what) { std::fprintf(stderr, "emulated GPU: %s\n", what.c_str()); }

struct IpcHandle {
  int process;
  int file;
  size_t bytes;
};
static_assert(sizeof(IpcHandle) <= sizeof(cudaIpcMemHandle_t));

void* MapFile(int file, size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

bool IsCapturing() { return capturing != nullptr; }

cudaError_t FailCapture() {
  capturing->capture_failed = true;
  return cudaErrorStreamCaptureUnsupported;
}

Device& Device::Get() {
  static auto& device = *new Device;
  return device;
}

// ---- Kernels ----

void Device::AddKernels(const void* fat_binary) {
  const std::lock_guard lock(mutex_);
  programs_[fat_binary];
}

void Device::AddKernel(const void* fat_binary, const void* host_function, const char* name) {
  const std::lock_guard lock(mutex_);
  kernels_[host_function] = {.fat_binary = fat_binary, .name = name};
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
  LaunchRequest request;
  request.program = kernel->second.program;
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
  if (config.gridDim.y != 1 || config.gridDim.z != 1 || config.blockDim.y != 1 ||
      config.blockDim.z != 1 || request.shared_bytes > kernel->second.shared_bytes ||
      request.cluster > kMostClusterBlocks || request.blocks % request.cluster != 0 ||
      request.blocks == 0 || request.threads > request.program->function.max_threads) {
    Say(absl::StrCat(kernel->second.name, " cannot be launched with ", request.blocks,
                     " blocks of ", request.threads, " threads and ", request.shared_bytes,
                     " bytes of shared memory in clusters of ", request.cluster));
    return cudaErrorInvalidConfiguration;
  }
  // Of kernels with one parameter: how many bytes it has says their PTX.
  const size_t bytes = request.program->function.parameter_bytes;
  const auto* const begin = static_cast<const std::byte*>(arguments[0]);
  request.parameters.assign(begin, begin + bytes);
  AddToStream(config.stream, std::move(request));
  return cudaSuccess;
}

// ---- Memory ----

cudaError_t Device::Map(void** memory, size_t bytes, bool is_device) {
  const std::lock_guard lock(mutex_);
  if (lasting_error_ != cudaSuccess) return lasting_error_;
  if (bytes > kTotalBytes - allocated_) return cudaErrorMemoryAllocation;
  const int file = memfd_create("emulated-gpu", MFD_CLOEXEC);
  if (file < 0) return cudaErrorMemoryAllocation;
  *memory = ftruncate(file, static_cast<off_t>(bytes)) == 0 ? MapFile(file, bytes) : nullptr;
  if (*memory == nullptr) {
    close(file);
    return cudaErrorMemoryAllocation;
  }
  if (bytes <= kMostPoisoned) std::memset(*memory, 0xff, bytes);  // NaN in every format
  owned_[*memory] = {.bytes = bytes, .file = file, .is_device = is_device};
  if (is_device) allocated_ += bytes;
  memory_.Add(*memory, bytes);
  return cudaSuccess;
}

cudaError_t Device::Allocate(void** memory, size_t bytes) { return Map(memory, bytes, true); }
cudaError_t Device::AllocatePinned(void** memory, size_t bytes) {
  return Map(memory, bytes, false);
}

cudaError_t Device::Free(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const cudaError_t ran = RunAll();
  const std::lock_guard lock(mutex_);
  const auto owned = owned_.find(memory);
  if (owned == owned_.end()) return cudaErrorInvalidValue;
  munmap(memory, owned->second.bytes);
  if (owned->second.file >= 0) close(owned->second.file);
  if (owned->second.is_device && owned->second.file >= 0) allocated_ -= owned->second.bytes;
  memory_.Remove(memory);
  owned_.erase(owned);
  return ran;
}

cudaError_t Device::Register(void* memory, size_t bytes) {
  const std::lock_guard lock(mutex_);
  memory_.Add(memory, bytes);
  return lasting_error_;
}
cudaError_t Device::Unregister(void* memory) {
  const std::lock_guard lock(mutex_);
  memory_.Remove(memory);
  return lasting_error_;
}

size_t Device::free_bytes() {
  const std::lock_guard lock(mutex_);
  return kTotalBytes - allocated_;
}

size_t Device::SizeOf(const void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = memory_.Find(reinterpret_cast<uint64_t>(memory));
  return found.begin == reinterpret_cast<uint64_t>(memory) ? found.size_bytes : 0;
}

cudaError_t Device::HandleOf(void* memory, cudaIpcMemHandle_t* handle) {
  const std::lock_guard lock(mutex_);
  const auto owned = owned_.find(memory);
  if (owned == owned_.end() || !owned->second.is_device) return cudaErrorInvalidValue;
  const IpcHandle own{getpid(), owned->second.file, owned->second.bytes};
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &own, sizeof(own));
  return cudaSuccess;
}

// Another process's memory, through the file it is.
cudaError_t Device::OpenHandle(const cudaIpcMemHandle_t& handle, void** memory) {
  IpcHandle other;
  std::memcpy(&other, &handle, sizeof(other));
  if (other.process == getpid()) return cudaErrorDeviceUninitialized;
  const int file =
      open(absl::StrCat("/proc/", other.process, "/fd/", other.file).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return cudaErrorMapBufferObjectFailed;
  *memory = MapFile(file, other.bytes);
  close(file);
  if (*memory == nullptr) return cudaErrorMapBufferObjectFailed;
  const std::lock_guard lock(mutex_);
  owned_[*memory] = {.bytes = other.bytes, .file = -1, .is_device = true};
  memory_.Add(*memory, other.bytes);
  return cudaSuccess;
}

// ---- Streams ----

cudaStream_t Device::NewStream() {
  const std::lock_guard lock(mutex_);
  const cudaStream_t stream = *streams_.insert(new CUstream_st).first;
  stream->overlaps = Overlaps(++num_streams_);
  return stream;
}

void Device::EndStream(cudaStream_t stream) {
  RunStream(stream);
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
  delete stream;
}

void Device::AddToStream(cudaStream_t stream, Work work) {
  if (stream->capture != nullptr) {
    stream->capture->work.push_back(std::move(work));
  } else {
    stream->work.push_back(std::move(work));
  }
}

cudaError_t Device::Enqueue(cudaStream_t stream, Work work) {
  const std::lock_guard lock(mutex_);
  AddToStream(stream, std::move(work));
  return lasting_error_;
}

cudaError_t Device::EnqueueCopy(cudaStream_t stream, const CopyWork& copy) {
  {
    const std::lock_guard lock(mutex_);
    for (const void* const end : {static_cast<const void*>(copy.to), copy.from}) {
      const auto found = memory_.Find(reinterpret_cast<uint64_t>(end));
      if (copy.bytes != 0 && found.size_bytes == 0) {
        Say("a copy from or to memory of the host that was not pinned");
        return cudaErrorInvalidValue;
      }
    }
  }
  return Enqueue(stream, copy);
}

cudaError_t Device::EnqueueAll(cudaStream_t stream, const std::vector<Work>& work) {
  const std::lock_guard lock(mutex_);
  for (const Work& one : work) AddToStream(stream, one);
  return lasting_error_;
}

bool Device::IsIdle(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  return stream->work.empty();
}

cudaError_t Device::RunStream(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  return RunLocked(stream);
}

cudaError_t Device::RunLocked(cudaStream_t stream) {
  while (!stream->work.empty()) {
    const cudaError_t error = Carry(*stream, stream->work.front());
    if (error == cudaErrorNotReady) return error;
    stream->work.pop_front();
  }
  return lasting_error_;
}

cudaError_t Device::RunAll() {
  for (;;) {
    bool all_done = true;
    {
      const std::lock_guard lock(mutex_);
      for (const cudaStream_t stream : streams_) {
        if (RunLocked(stream) == cudaErrorNotReady) all_done = false;
      }
      if (all_done) return lasting_error_;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::string Device::CarryLaunch(CUstream_st& stream, const LaunchRequest& launch) {
  const LaunchOrder order = stream.overlaps.Begin(++num_launches_, launch.may_overlap);
  bool all_waited = true;
  const absl::Status status = CarryOut(launch, order, memory_, all_waited);
  stream.overlaps.End(order, all_waited);
  return std::string(status.message());
}

// After a fault nothing is carried out, but what others wait for is done.
cudaError_t Device::Carry(CUstream_st& stream, Work& work) {
  if (auto* const record = std::get_if<RecordWork>(&work)) {
    record->event->is_done = true;
    return cudaSuccess;
  }
  if (lasting_error_ != cudaSuccess) return lasting_error_;
  if (const auto* const await = std::get_if<AwaitWork>(&work)) {
    return *await->word == await->value ? cudaSuccess : cudaErrorNotReady;
  }
  std::string wrong;
  if (!std::holds_alternative<LaunchRequest>(work)) stream.overlaps.EndAll();
  if (const auto* const launch = std::get_if<LaunchRequest>(&work)) {
    wrong = CarryLaunch(stream, *launch);
  } else if (const auto* const copy = std::get_if<CopyWork>(&work)) {
    for (const void* const end : {static_cast<const void*>(copy->to), copy->from}) {
      if (wrong.empty() && copy->bytes != 0) {
        wrong = memory_.Check(reinterpret_cast<uint64_t>(end), copy->bytes, 1);
      }
    }
    if (wrong.empty()) std::memmove(copy->to, copy->from, copy->bytes);
  } else if (const auto* const fill = std::get_if<FillWork>(&work)) {
    wrong = memory_.Check(reinterpret_cast<uint64_t>(fill->to), fill->bytes, 1);
    if (wrong.empty()) std::memset(fill->to, fill->value, fill->bytes);
  } else if (const auto* const write = std::get_if<WriteWork>(&work)) {
    *write->word = write->value;
  }
  if (wrong.empty()) return cudaSuccess;
  Say(wrong);
  return lasting_error_ = cudaErrorLaunchFailure;
}

cudaError_t Device::BeginCapture(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  stream->capture = new CUgraph_st;
  stream->capture_failed = false;
  capturing = stream;
  return cudaSuccess;
}

cudaError_t Device::EndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mutex_);
  if (stream->capture == nullptr) return cudaErrorIllegalState;
  *graph = std::exchange(stream->capture, nullptr);
  capturing = nullptr;
  if (!stream->capture_failed) return cudaSuccess;
  delete std::exchange(*graph, nullptr);
  return cudaErrorStreamCaptureInvalidated;
}

cudaError_t Device::lasting_error() {
  const std::lock_guard lock(mutex_);
  return lasting_error_;
}

}  // namespace sluice::cuda::emulator
