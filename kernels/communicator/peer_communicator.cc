#include "kernels/communicator/peer_communicator.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {

PeerCommunicator::PeerCommunicator(std::string group, const WiringIdentity& wiring, int rank,
                                   int size)
    : group_(std::move(group)), wiring_(wiring), rank_(rank), size_(size) {}

absl::Status PeerCommunicator::Broadcast(absl::Span<std::byte> data, int root, Deadline deadline) {
  SLUICE_CHECK(root >= 0 && root < size_);
  if (absl::Status failure = Failure(); !failure.ok()) return failure;
  if (size_ == 1 || data.empty()) return absl::OkStatus();
  return BroadcastAmongPeers(data, root, deadline);
}

absl::Status PeerCommunicator::AllGather(absl::Span<const std::byte> sent,
                                         absl::Span<std::byte> received, Deadline deadline) {
  SLUICE_CHECK(received.size() == sent.size() * size_);
  if (absl::Status failure = Failure(); !failure.ok()) return failure;
  if (sent.empty()) return absl::OkStatus();
  std::memcpy(received.data() + sent.size() * rank_, sent.data(), sent.size());
  return size_ == 1 ? absl::OkStatus() : GatherFromPeers(sent, received, deadline);
}

absl::Status PeerCommunicator::AllToAll(absl::Span<const std::byte> sent,
                                        absl::Span<std::byte> received, Deadline deadline) {
  SLUICE_CHECK(received.size() == sent.size() && sent.size() % size_ == 0);
  if (absl::Status failure = Failure(); !failure.ok()) return failure;
  if (sent.empty()) return absl::OkStatus();
  const std::size_t part = sent.size() / size_;
  std::memcpy(received.data() + part * rank_, sent.data() + part * rank_, part);
  return size_ == 1 ? absl::OkStatus() : ExchangeWithPeers(sent, received, deadline);
}

void PeerCommunicator::Abort(absl::Status reason) {
  SLUICE_CHECK(!reason.ok());
  Fail(reason).IgnoreError();
}

absl::Status PeerCommunicator::Failure() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

absl::Status PeerCommunicator::Fail(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  failure_ = status;
  LeavePeers(status);
  return failure_;
}

absl::Status PeerCommunicator::WithContext(const absl::Status& status,
                                           absl::string_view doing) const {
  return absl::Status(status.code(), absl::StrCat("rank ", rank_, " of ", size_, " in '", group_,
                                                  "', ", doing, ": ", status.message()));
}

}  // namespace sluice
