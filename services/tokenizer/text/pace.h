// How far work on a text goes on: every few hundred microseconds it asks a checkpoint, which may take
// its time, so that others are served meanwhile, and may end the work. Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"

namespace sluice {

class Pace {
 public:
  // Whether the work goes on.
  using Checkpoint = std::function<bool()>;

  // `checkpoint` is borrowed; null: nothing is asked.
  explicit Pace(const Checkpoint* checkpoint = nullptr) : checkpoint_(checkpoint) {}

  // So many bytes or symbols have been worked on. False, from then on always: the work ends, and
  // what it has made is of no use.
  bool Pass(size_t work) {
    if (checkpoint_ == nullptr || (since_checkpoint_ += work) < kCheckpointWork) return !stopped_;
    since_checkpoint_ = 0;
    if (!stopped_) stopped_ = !(*checkpoint_)();
    return !stopped_;
  }
  bool stopped() const { return stopped_; }
  // CANCELLED where it stopped.
  absl::Status status() const {
    return stopped_ ? absl::CancelledError("the work was ended at a checkpoint") : absl::OkStatus();
  }

 private:
  static constexpr size_t kCheckpointWork = 4096;

  const Checkpoint* checkpoint_;
  size_t since_checkpoint_ = 0;
  bool stopped_ = false;
};

// The same where there may be no pace to keep.
inline bool Passes(Pace* pace, size_t work) { return pace == nullptr || pace->Pass(work); }

}  // namespace sluice
