// The functions of NCCL (2.28) that the project calls, between processes whose GPUs are carried out
// on the host: a shared library, opened as NCCL is, which calls the CUDA runtime of the program that
// opens it. Groups are non-blocking, and strict about it: a call before the one before is over is an
// invalid use, and so is one that other ranks don't make in the same place, of the same size,
// recorded or not.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstdio>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/emulator/nccl/exchange.h"

using sluice::cuda::emulator::Exchange;
using sluice::cuda::emulator::kMostRanks;
using sluice::cuda::emulator::kSlotBytes;

struct ncclComm {
  Exchange* exchange = nullptr;
  // How often it is still to be said that the last call is under way.
  int times_under_way = 0;
  ncclResult_t failure = ncclSuccess;
  cudaStream_t stream = nullptr;  // of the last exchange
};

namespace {

enum class Kind : uint64_t { kAllGather = 1, kAllToAll = 2 };

// Of sends and receives between ncclGroupStart and ncclGroupEnd, in order.
struct Pending {
  ncclComm_t comm = nullptr;
  std::vector<const std::byte*> sent;
  std::vector<std::byte*> received;
  size_t bytes = 0;
  cudaStream_t stream = nullptr;
  bool is_even = true;  // every peer in turn, with as many bytes
};
thread_local int open_groups = 0;
thread_local Pending pending;

// Whether the last call is over.
bool IsSettled(const ncclComm& comm) {
  return comm.times_under_way == 0 && comm.exchange->HaveAllJoined();
}

ncclResult_t Exchanged(ncclComm& comm, Kind kind, const void* sent, size_t bytes, size_t offset,
                       size_t part, void* received, cudaStream_t stream) {
  if (!IsSettled(comm)) return comm.failure = ncclInvalidUsage;
  if (bytes > kSlotBytes) return comm.failure = ncclInvalidArgument;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &capture);
  const bool is_recorded = capture != cudaStreamCaptureStatusNone;
  comm.exchange->Compare(bytes << 3 | static_cast<uint64_t>(kind) << 1 | uint64_t{is_recorded});
  if (!comm.exchange->Enqueue(stream, sent, bytes, offset, part, received)) {
    return comm.failure = ncclUnhandledCudaError;
  }
  comm.stream = stream;
  comm.times_under_way = 1;
  return ncclInProgress;
}

template <class Pointer>
bool IsOneAfterAnother(const std::vector<Pointer>& parts, size_t bytes) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] != parts[0] + i * bytes) return false;
  }
  return true;
}

ncclResult_t EndGroup(const Pending& group) {
  if (group.comm == nullptr) return ncclSuccess;
  const auto size = static_cast<size_t>(group.comm->exchange->size());
  const bool is_whole =
      group.is_even && group.sent.size() == size && group.received.size() == size &&
      IsOneAfterAnother(group.sent, group.bytes) && IsOneAfterAnother(group.received, group.bytes);
  if (!is_whole) return group.comm->failure = ncclInvalidUsage;
  return Exchanged(*group.comm, Kind::kAllToAll, group.sent[0], size * group.bytes,
                   group.comm->exchange->rank() * group.bytes, group.bytes, group.received[0],
                   group.stream);
}

template <class Pointer>
ncclResult_t Add(std::vector<Pointer>& parts, Pointer part, size_t bytes, int peer, ncclComm_t comm,
                 cudaStream_t stream) {
  if (open_groups == 0) return comm->failure = ncclInvalidUsage;
  const bool is_first = pending.comm == nullptr;
  pending.is_even = pending.is_even && static_cast<size_t>(peer) == parts.size() &&
                    (is_first || (pending.bytes == bytes && pending.comm == comm));
  pending.comm = comm;
  pending.bytes = bytes;
  pending.stream = stream;
  parts.push_back(part);
  return ncclInProgress;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION(2, 28, 0);
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  *id = {};
  std::snprintf(id->internal, sizeof(id->internal), "/sluice-emulated-nccl-%08x%08x", random(),
                random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (rank < 0 || rank >= size || size > kMostRanks) return ncclInvalidArgument;
  if (config == nullptr || config->blocking != 0) return ncclInvalidUsage;
  Exchange* const exchange = Exchange::Join(id.internal, rank, size);
  if (exchange == nullptr) return ncclSystemError;
  *comm = new ncclComm{.exchange = exchange};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (comm->exchange->Differ() && comm->failure == ncclSuccess) comm->failure = ncclInvalidUsage;
  if (comm->failure != ncclSuccess) {
    *state = comm->failure;
  } else {
    *state = IsSettled(*comm) ? ncclSuccess : ncclInProgress;
    if (comm->times_under_way > 0) --comm->times_under_way;
  }
  return ncclSuccess;
}

// What the stream has under way is over when this returns.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm->stream != nullptr) {
    cudaEvent_t end = nullptr;
    cudaEventCreateWithFlags(&end, cudaEventDisableTiming);
    cudaEventRecord(end, comm->stream);
    comm->exchange->Release();
    while (cudaEventQuery(end) == cudaErrorNotReady) {
      comm->exchange->Release();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    cudaGetLastError();
    cudaEventDestroy(end);
  }
  delete comm->exchange;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* sent, void* received, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclInt8) return comm->failure = ncclInvalidArgument;
  return Exchanged(*comm, Kind::kAllGather, sent, count, 0, count, received, stream);
}

ncclResult_t ncclGroupStart() {
  ++open_groups;
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* sent, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclInt8) return comm->failure = ncclInvalidArgument;
  return Add(pending.sent, static_cast<const std::byte*>(sent), count, peer, comm, stream);
}

ncclResult_t ncclRecv(void* received, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (type != ncclInt8) return comm->failure = ncclInvalidArgument;
  return Add(pending.received, static_cast<std::byte*>(received), count, peer, comm, stream);
}

ncclResult_t ncclGroupEnd() {
  if (open_groups == 0) return ncclInvalidUsage;
  if (--open_groups > 0) return ncclSuccess;
  return EndGroup(std::exchange(pending, {}));
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclInvalidUsage:
      return "invalid usage (emulated NCCL)";
    case ncclInvalidArgument:
      return "invalid argument (emulated NCCL)";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (emulated NCCL)";
    case ncclSystemError:
      return "unhandled system error (emulated NCCL)";
    default:
      return "no error (emulated NCCL)";
  }
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

}  // extern "C"
