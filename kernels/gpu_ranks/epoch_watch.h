// What ends a rank's part in an epoch before its time: a peer that is gone, a session that is over,
// a deadline that has passed, a failure of its own. The first is kept. Belongs to the backend's
// thread.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "kernels/communicator.h"
#include "kernels/deadline.h"

namespace sluice {

class EpochWatch {
 public:
  // Borrows the communicator. `doing` is said in failures: "exchanging on one GPU".
  EpochWatch(Communicator& communicator, std::string doing)
      : communicator_(communicator), doing_(std::move(doing)) {}

  void SetDeadline(Deadline deadline) { deadline_ = deadline; }
  Deadline deadline() const { return deadline_; }

  // Why it has ended, saying whose part in what; OK while it has not.
  const absl::Status& failure() const { return failure_; }
  // Ends it where it has not ended yet. Returns why it has.
  absl::Status Fail(const absl::Status& status);

  // As RankMember::Look(): what Fail() was given counts as told.
  absl::Status Look();

 private:
  absl::Status Seen();

  Communicator& communicator_;
  const std::string doing_;
  Deadline deadline_ = Deadline::Never();
  absl::Status failure_;
};

}  // namespace sluice
