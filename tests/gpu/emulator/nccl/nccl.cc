// The functions of NCCL (2.28) that the project calls, between processes whose GPUs are carried out
// on the host: a shared library, opened as NCCL is, which calls the CUDA runtime of the program that
// opens it. Groups are non-blocking, and strict about it: a call before the one before is over is an
// invalid use, and so is one that other ranks don't make in the same place, of the same size,
// recorded or not.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu/emulator/nccl/exchange.h"

using sluice::cuda::emulator::Exchange;
using sluice::cuda::emulator::kMostRanks;
using sluice::cuda::emulator::kSlotBytes;

struct ncclComm {
  std::unique_ptr<Exchange> exchange;
  // How often it is still to be said that the last call is under way.
  int times_under_way = 0;
  ncclResult_t failure = ncclSuccess;
  std::string reason;             // of the failure
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

ncclResult_t Fail(ncclComm& comm, ncclResult_t failure, std::string reason) {
  comm.reason = std::move(reason);
  return comm.failure = failure;
}

// Whether the last call is over.
bool IsSettled(const ncclComm& comm) {
  return comm.times_under_way == 0 && comm.exchange->HaveAllJoined();
}

// `part` bytes come from each rank.
ncclResult_t Exchanged(ncclComm& comm, Kind kind, const void* sent, size_t part, void* received,
                       cudaStream_t stream) {
  if (!IsSettled(comm)) {
    return Fail(comm, ncclInvalidUsage, "a call before the one before was over");
  }
  const bool to_each_its_own = kind == Kind::kAllToAll;
  const size_t bytes = to_each_its_own ? part * comm.exchange->size() : part;
  const size_t offset = to_each_its_own ? part * comm.exchange->rank() : 0;
  if (bytes > kSlotBytes) {
    return Fail(
        comm, ncclInvalidArgument,
        std::to_string(bytes) + " bytes; this stand-in takes " + std::to_string(kSlotBytes));
  }
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &capture);
  const bool is_recorded = capture != cudaStreamCaptureStatusNone;
  comm.exchange->Compare(bytes << 3 | static_cast<uint64_t>(kind) << 1 | uint64_t{is_recorded});
  if (!comm.exchange->Enqueue(stream, sent, bytes, offset, part, received)) {
    return Fail(comm, ncclUnhandledCudaError, "an exchange could not be enqueued");
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
  if (!is_whole) {
    return Fail(
        *group.comm, ncclInvalidUsage,
        "a group of other calls than a send to and a receive from every rank in turn, of as "
        "many bytes, one after another: this stand-in has no other");
  }
  return Exchanged(*group.comm, Kind::kAllToAll, group.sent[0], group.bytes, group.received[0],
                   group.stream);
}

ncclResult_t FailOfType(ncclComm& comm) {
  return Fail(comm, ncclInvalidArgument, "numbers of another type than ncclInt8");
}

template <class Pointer>
ncclResult_t Add(std::vector<Pointer>& parts, Pointer part, size_t bytes, ncclDataType_t type,
                 int peer, ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclInt8) return FailOfType(*comm);
  if (open_groups == 0) {
    return Fail(*comm, ncclInvalidUsage, "a send or receive that is in no group");
  }
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
  auto exchange = Exchange::Join(id.internal, rank, size);
  if (exchange == nullptr) return ncclSystemError;
  *comm = new ncclComm{.exchange = std::move(exchange)};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (comm->exchange->Differ() && comm->failure == ncclSuccess) {
    Fail(*comm, ncclInvalidUsage,
         "ranks made other calls, of other sizes, or only some recorded it");
  }
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
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* sent, void* received, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclInt8) return FailOfType(*comm);
  return Exchanged(*comm, Kind::kAllGather, sent, count, received, stream);
}

ncclResult_t ncclGroupStart() {
  ++open_groups;
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* sent, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Add(pending.sent, static_cast<const std::byte*>(sent), count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void* received, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Add(pending.received, static_cast<std::byte*>(received), count, type, peer, comm, stream);
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

const char* ncclGetLastError(ncclComm_t comm) {
  return comm == nullptr ? "" : comm->reason.c_str();
}

}  // extern "C"
