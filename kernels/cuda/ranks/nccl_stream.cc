#include "kernels/cuda/ranks/nccl_stream.h"

#include <cuda_runtime_api.h>

#include <cstring>

#include "absl/strings/str_cat.h"

// A group of the interface is one of the library, with the number of its ranks.
struct sluice::NcclGroup {
  ncclComm_t comm = nullptr;
  int size = 0;
};

namespace sluice::cuda {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(NcclId));

}  // namespace

absl::Status NcclStream::StatusOf(ncclResult_t result, const char* call, NcclGroup* group) const {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  const char* const more = nccl_.last_error(group == nullptr ? nullptr : group->comm);
  const bool is_peers = result == ncclRemoteError || result == ncclSystemError;
  return absl::Status(
      is_peers ? absl::StatusCode::kUnavailable : absl::StatusCode::kInternal,
      absl::StrCat(call, ": ", nccl_.error_text(result),
                   more == nullptr || *more == '\0' ? "" : ": ", more == nullptr ? "" : more));
}

absl::StatusOr<NcclId> NcclStream::NewId() {
  ncclUniqueId drawn;
  const absl::Status status = StatusOf(nccl_.get_unique_id(&drawn), "ncclGetUniqueId", nullptr);
  if (!status.ok()) return status;
  NcclId id;
  std::memcpy(id.data(), &drawn, sizeof(drawn));
  return id;
}

absl::StatusOr<NcclGroup*> NcclStream::Begin(const NcclId& id, int rank, int size) {
  gpu_.stream();  // also chooses the device for this thread
  ncclUniqueId given;
  std::memcpy(&given, id.data(), sizeof(given));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  auto* const group = new NcclGroup{.size = size};
  const absl::Status status = StatusOf(nccl_.init_rank(&group->comm, size, given, rank, &config),
                                       "ncclCommInitRankConfig", nullptr);
  if (status.ok()) return group;
  Abort(group);
  return status;
}

absl::StatusOr<NcclProgress> NcclStream::Progress(NcclGroup* group) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl_.get_async_error(group->comm, &state);
  if (absl::Status status = StatusOf(asked, "ncclCommGetAsyncError", group); !status.ok()) {
    return status;
  }
  if (absl::Status status = StatusOf(state, "NCCL", group); !status.ok()) return status;
  return state == ncclInProgress ? NcclProgress::kUnderWay : NcclProgress::kDone;
}

absl::Status NcclStream::AllGather(NcclGroup* group, const void* sent, void* received,
                                   size_t bytes) {
  const auto stream = static_cast<cudaStream_t>(gpu_.stream());
  return StatusOf(nccl_.all_gather(sent, received, bytes, ncclInt8, group->comm, stream),
                  "ncclAllGather", group);
}

absl::Status NcclStream::AllToAll(NcclGroup* group, const void* sent, void* received,
                                  size_t bytes) {
  const auto stream = static_cast<cudaStream_t>(gpu_.stream());
  const auto* from = static_cast<const std::byte*>(sent);
  auto* to = static_cast<std::byte*>(received);
  absl::Status status = StatusOf(nccl_.group_start(), "ncclGroupStart", group);
  for (int peer = 0; peer < group->size && status.ok(); ++peer) {
    status = StatusOf(nccl_.send(from + peer * bytes, bytes, ncclInt8, peer, group->comm, stream),
                      "ncclSend", group);
    if (!status.ok()) break;
    status = StatusOf(nccl_.receive(to + peer * bytes, bytes, ncclInt8, peer, group->comm, stream),
                      "ncclRecv", group);
  }
  // Ended in any case: an open group would swallow every call that follows.
  const absl::Status ended = StatusOf(nccl_.group_end(), "ncclGroupEnd", group);
  return status.ok() ? ended : status;
}

void NcclStream::Abort(NcclGroup* group) {
  gpu_.stream();
  if (group->comm != nullptr) nccl_.abort(group->comm);
  delete group;
}

}  // namespace sluice::cuda
