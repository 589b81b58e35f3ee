#include "kernels/gpu_ranks/peer_member.h"

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status PeerMember::AllGather(absl::Span<const std::byte> sent,
                                   absl::Span<std::byte> received) {
  return failure_.ok() ? exchange_.AllGather(sent, received) : failure_;
}

absl::Status PeerMember::AllToAll(absl::Span<const std::byte> sent,
                                  absl::Span<std::byte> received) {
  return failure_.ok() ? exchange_.AllToAll(sent, received) : failure_;
}

absl::Status PeerMember::Seen() {
  absl::Status peers = communicator_.Check();
  if (!peers.ok() || !deadline_.HasPassed()) return peers;
  return absl::DeadlineExceededError("a rank did not come in time");
}

absl::Status PeerMember::Look() {
  absl::Status told;
  if (failure_.ok()) {
    const absl::Status seen = Seen();
    if (seen.ok()) return seen;
    failure_ = absl::Status(
        seen.code(), absl::StrCat("rank ", communicator_.rank(), " of ", communicator_.size(),
                                  ", exchanging on one GPU: ", seen.message()));
    told = failure_;
  }
  exchange_.Release();
  return told;
}

}  // namespace sluice
