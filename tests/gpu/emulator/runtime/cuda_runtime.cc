// The functions of the CUDA runtime (13.0) that the project calls, for the one GPU that is carried
// out on the host. Linked in place of libcudart; what they do is what its documentation says.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu/emulator/runtime/device.h"

namespace {

using sluice::cuda::emulator::AwaitWork;
using sluice::cuda::emulator::CopyWork;
using sluice::cuda::emulator::Device;
using sluice::cuda::emulator::FailCapture;
using sluice::cuda::emulator::FillWork;
using sluice::cuda::emulator::IsCapturing;
using sluice::cuda::emulator::RecordWork;
using sluice::cuda::emulator::WriteWork;

thread_local cudaError_t last_error = cudaSuccess;
thread_local int chosen_device = 0;

// As many as are asked for, so that processes have one each; a process that uses several finds one
// memory in all of them.
int NumDevices() {
  static const int count = [] {
    const char* const asked = std::getenv("SLUICE_EMULATED_GPUS");
    return asked == nullptr ? 1 : std::max(1, std::atoi(asked));
  }();
  return count;
}
bool IsDevice(int device) { return 0 <= device && device < NumDevices(); }

// A call's failure is the thread's last error, too.
cudaError_t Told(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t Synchronize(cudaStream_t stream) {
  for (;;) {
    const cudaError_t error = Device::Get().RunStream(stream);
    if (error != cudaErrorNotReady) return error;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

CUresult AwaitValue(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  if (flags != CU_STREAM_WAIT_VALUE_EQ) return CUDA_ERROR_NOT_SUPPORTED;
  Device::Get().Enqueue(stream,
                        AwaitWork{reinterpret_cast<const volatile uint32_t*>(address), value});
  return CUDA_SUCCESS;
}
CUresult WriteValue(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  Device::Get().Enqueue(stream, WriteWork{reinterpret_cast<volatile uint32_t*>(address), value});
  return CUDA_SUCCESS;
}
CUresult AddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  *size = Device::Get().SizeOf(reinterpret_cast<const void*>(address));
  *base = address;
  return *size == 0 ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

// ---- What nvcc's objects call before main() ----
// NOLINTBEGIN(bugprone-reserved-identifier): nvcc's names

void** __cudaRegisterFatBinary(void* fat_binary) {
  Device::Get().AddKernels(fat_binary);
  return static_cast<void**>(fat_binary);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void** fat_binary, const char* host_function, char*, const char* name,
                            int, uint3*, uint3*, dim3*, dim3*, int*) {
  Device::Get().AddKernel(fat_binary, host_function, name);
}
// Of launches as <<<...>>>, of which there are none.
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) {
  return Told(cudaErrorNotSupported);
}
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return Told(cudaErrorNotSupported); }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) {
  return Told(cudaErrorNotSupported);
}

// NOLINTEND(bugprone-reserved-identifier)

// ---- The device ----

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = NumDevices();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (!IsDevice(device)) return Told(cudaErrorInvalidDevice);
  chosen_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = chosen_device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!IsDevice(device)) return Told(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "emulated GPU");
  std::memcpy(properties->uuid.bytes, "sluice-emulated!", sizeof(properties->uuid.bytes));
  properties->uuid.bytes[sizeof(properties->uuid.bytes) - 1] += static_cast<char>(device);
  properties->major = 9;
  properties->multiProcessorCount = sluice::cuda::emulator::kMultiprocessors;
  properties->totalGlobalMem = sluice::cuda::emulator::kTotalBytes;
  properties->sharedMemPerBlockOptin = sluice::cuda::emulator::kMostSharedBytes;
  properties->clusterLaunch = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = sluice::cuda::emulator::kMostSharedBytes;
      return cudaSuccess;
    default:
      return Told(cudaErrorNotSupported);
  }
}

// ---- Errors ----

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    default:
      return "an error of the CUDA runtime";
  }
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() {
  const cudaError_t lasting = Device::Get().lasting_error();
  const cudaError_t error = std::exchange(last_error, cudaSuccess);
  return lasting != cudaSuccess ? lasting : error;
}

// ---- Memory ----

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return Told(IsCapturing() ? FailCapture() : Device::Get().Allocate(memory, bytes));
}
cudaError_t cudaFree(void* memory) {
  return Told(IsCapturing() ? FailCapture() : Device::Get().Free(memory));
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  return Told(IsCapturing() ? FailCapture() : Device::Get().AllocatePinned(memory, bytes));
}
cudaError_t cudaFreeHost(void* memory) {
  return Told(IsCapturing() ? FailCapture() : Device::Get().Free(memory));
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  *free_bytes = Device::Get().free_bytes();
  *total = sluice::cuda::emulator::kTotalBytes;
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
  return Told(Device::Get().Register(memory, bytes));
}
cudaError_t cudaHostUnregister(void* memory) { return Told(Device::Get().Unregister(memory)); }
cudaError_t cudaHostGetDevicePointer(void** on_device, void* memory, unsigned) {
  *on_device = memory;
  return cudaSuccess;
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  return Told(Device::Get().HandleOf(memory, handle));
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
  return Told(Device::Get().OpenHandle(handle, memory));
}
cudaError_t cudaIpcCloseMemHandle(void* memory) { return Told(Device::Get().Free(memory)); }

// ---- Streams, events, graphs ----

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = Device::Get().NewStream();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Device::Get().EndStream(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Told(IsCapturing() ? FailCapture() : Synchronize(stream));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (IsCapturing()) return Told(FailCapture());
  const cudaError_t lasting = Device::Get().lasting_error();
  if (lasting != cudaSuccess) return Told(lasting);
  return Device::Get().IsIdle(stream) ? cudaSuccess : Told(cudaErrorNotReady);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return Told(Device::Get().EnqueueCopy(stream, CopyWork{to, from, bytes}));
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return Told(Device::Get().Enqueue(stream, FillWork{memory, value, bytes}));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  // Its record may be under way.
  if (event->stream != nullptr && !event->is_done) Synchronize(event->stream);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->is_done = false;
  event->stream = stream;
  return Told(Device::Get().Enqueue(stream, RecordWork{event}));
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (IsCapturing()) return Told(FailCapture());
  if (!event->is_done) {
    const cudaError_t error = Device::Get().RunStream(event->stream);
    if (!event->is_done) return Told(error == cudaSuccess ? cudaErrorNotReady : error);
  }
  return Told(Device::Get().lasting_error());
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status =
      stream->capture == nullptr ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return Told(Device::Get().BeginCapture(stream));
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return Told(Device::Get().EndCapture(stream, graph));
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return Told(Device::Get().EnqueueAll(stream, executable->work));
}

// ---- Kernels ----

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  return Told(Device::Get().AllowSharedBytes(function, value));
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  return Told(Device::Get().Launch(*config, function, arguments));
}

// ---- The driver's ----

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const std::string wanted = name;
  *found = wanted == "cuStreamWaitValue32"    ? reinterpret_cast<void*>(AwaitValue)
           : wanted == "cuStreamWriteValue32" ? reinterpret_cast<void*>(WriteValue)
           : wanted == "cuMemGetAddressRange" ? reinterpret_cast<void*>(AddressRange)
                                              : nullptr;
  *result = *found != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"
