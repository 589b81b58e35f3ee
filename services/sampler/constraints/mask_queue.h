// A compiled constraint, and the texts under it whose next tokens are wanted: one after the other,
// by a job of FairWork, on the account of its owner. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/constraint/engine/matcher.h"
#include "services/work/fair_work.h"

namespace sluice {

// What is wanted of a text: the masks for the token behind `tokens` and behind each of `drafts`,
// and which tokens must follow `tokens`.
struct MaskQuery {
  std::vector<int32_t> tokens;
  std::vector<int32_t> drafts;
  int32_t max_following = 0;  // 0: not requested

  friend bool operator==(const MaskQuery&, const MaskQuery&) = default;
};

struct MaskAnswer {
  // One more than drafts, laid out as SampleRow::allowed. INVALID_ARGUMENT where the tokens before
  // do not keep the constraint; RESOURCE_EXHAUSTED where it takes too much.
  std::vector<absl::StatusOr<std::vector<uint32_t>>> masks;
  // The tokens that must follow, while one alone is allowed.
  std::vector<int32_t> forced;
  // Where there are none: the tokens in which the text that must follow is usually written. Others
  // may write it as well, and the last may in truth be longer.
  std::vector<int32_t> likely;
};

class MaskQueue;

// A text's questions and answers, between the thread that asks and the one that works.
struct MaskExchange {
  std::mutex mutex;
  std::condition_variable answered;
  // Under the mutex.
  std::shared_ptr<MaskQueue> queue;  // null until the constraint is compiled
  absl::Status refused;              // why it could not be
  std::optional<MaskQuery> asked;    // not yet begun
  uint64_t num_asked = 0;
  uint64_t num_answered = 0;  // the question that `answer` is of
  MaskAnswer answer;
  absl::Duration work;  // processor time since the last query
  // Of the thread that works.
  std::optional<Matcher> matcher;
};

class MaskQueue : public std::enable_shared_from_this<MaskQueue> {
 public:
  // `work` is borrowed.
  MaskQueue(std::shared_ptr<Constraint> constraint, FairWork* work, WorkOwner owner)
      : constraint_(std::move(constraint)), work_(work), owner_(std::move(owner)) {}

  // Has the exchange's question answered.
  void Add(std::shared_ptr<MaskExchange> exchange);

  size_t memory() const { return constraint_->memory(); }
  Constraint& constraint() { return *constraint_; }

 private:
  // The next text; null, and another job is needed for those that come later, where there is none
  // or it is not wanted any more.
  std::shared_ptr<MaskExchange> Next(bool wanted);
  void Run(FairWork::Slice& slice);
  void Answer(MaskExchange& exchange, FairWork::Slice& slice);

  const std::shared_ptr<Constraint> constraint_;
  FairWork* const work_;
  const WorkOwner owner_;
  absl::Mutex mutex_;
  std::deque<std::shared_ptr<MaskExchange>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool is_working_ ABSL_GUARDED_BY(mutex_) = false;  // a job is under way or waits
};

}  // namespace sluice
