#include "kernels/gpu_ranks/epoch_watch.h"

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status EpochWatch::Fail(const absl::Status& status) {
  if (failure_.ok()) {
    failure_ = absl::Status(
        status.code(), absl::StrCat("rank ", communicator_.rank(), " of ", communicator_.size(),
                                    ", ", doing_, ": ", status.message()));
  }
  return failure_;
}

absl::Status EpochWatch::Seen() {
  absl::Status peers = communicator_.Check();
  if (!peers.ok() || !deadline_.HasPassed()) return peers;
  return absl::DeadlineExceededError("a rank did not come in time");
}

absl::Status EpochWatch::Look() {
  if (!failure_.ok()) return absl::OkStatus();
  const absl::Status seen = Seen();
  return seen.ok() ? seen : Fail(seen);
}

}  // namespace sluice
