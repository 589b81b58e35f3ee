// The constraints that this process has compiled, for each owner by itself: made beside the steps,
// in the owner's share of the time, and kept while there is room. What was refused is kept too, so
// that it is not tried again and again. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/constraint/engine/matcher.h"
#include "services/constraint/engine/token_vocabulary.h"
#include "services/sampler/constraints/mask_queue.h"
#include "services/work/fair_work.h"
#include "sluice/v1/sampler.pb.h"

namespace sluice {

class ConstraintStore {
 public:
  using Result = absl::StatusOr<std::shared_ptr<MaskQueue>>;
  // `work` is what compiling has taken of the processor, where it was done for this caller first.
  using Callback = std::function<void(const Result&, absl::Duration work)>;

  struct Options {
    // What all constraints may take; those that no text uses are forgotten beyond it, the one that
    // was asked for longest ago first.
    size_t max_bytes = size_t{512} << 20;
    // Of each.
    ConstraintLimits limits{.max_bytes = size_t{32} << 20, .max_mask_bytes = size_t{8} << 20};
    // Compiling and masks. An owner may have as many that wait as are free, in number and in bytes.
    FairWork::Options work{.max_running = 2,
                           .max_long_begun = 32,
                           .max_long_begun_per_tenant = 2,
                           .max_jobs = 1024,
                           .max_bytes = size_t{64} << 20,
                           .nice = 5};
  };

  explicit ConstraintStore(int64_t vocabulary_size) : ConstraintStore(vocabulary_size, Options()) {}
  ConstraintStore(int64_t vocabulary_size, const Options& options);
  ConstraintStore(const ConstraintStore&) = delete;
  ConstraintStore& operator=(const ConstraintStore&) = delete;
  // Callbacks that wait are told CANCELLED. No text may ask any more.
  ~ConstraintStore();

  // Whether SetVocabulary was called.
  bool has_vocabulary() const;
  // What tokens stand for; only the first call counts. Entries beyond the model's vocabulary are
  // left out, and missing ones have no text.
  void SetVocabulary(const v1::ConstraintVocabulary& vocabulary);

  // Names a call of Prepare() or Need() to Leave().
  using Ticket = uint64_t;
  // Calls back once the constraint is compiled or refused, with a status of constraint.proto:
  // at once where that is known, else from another thread. RESOURCE_EXHAUSTED where too many of the
  // owner's wait or what texts use takes too much, or compiling takes more than `max_work` of the
  // processor; where others wait for it, it goes on for them.
  Ticket Prepare(const v1::Constraint& constraint, const WorkOwner& owner, Callback callback,
                 absl::Duration max_work = absl::InfiniteDuration());
  // The same for a sequence that is under way: it is not refused for lack of room.
  Ticket Need(const v1::Constraint& constraint, const WorkOwner& owner, Callback callback);
  // Calls back with CANCELLED, unless the constraint is known; what no caller waits for is not
  // compiled, or no further.
  void Leave(Ticket ticket);

  // What it holds.
  size_t size() const;

 private:
  struct Waiter {
    Ticket ticket = 0;
    Callback callback;
    absl::Duration max_work = absl::InfiniteDuration();
  };
  struct Entry {
    std::string key;
    WorkOwner owner;
    std::string constraint;  // serialized
    bool needs_room = true;  // false: Need() was called
    std::optional<Result> result;
    std::vector<Waiter> waiters;
    std::stop_source stop;  // of compiling it: no caller waits for it any more
  };
  using Entries = std::list<Entry>;

  Ticket Ask(const v1::Constraint& constraint, const WorkOwner& owner, bool needs_room,
             Waiter waiter);
  // The entry of a constraint, now the last asked for; null: there is none.
  Entry* Find(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds one, and a job that compiles it once the vocabulary is known. An error: there is no room.
  absl::StatusOr<Entry*> Add(Entry entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AddJob(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the waiter's callback from its entry, and with the last one the entry; null: there is
  // none.
  Callback TakeWaiter(Ticket ticket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nobody waits for an entry without a result any more.
  void Drop(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Measures memory, and evicts unused constraints above the limit.
  void ForgetUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void MakeVocabulary(v1::ConstraintVocabulary told);
  // The job of an entry, which stays where it is until this is done.
  void CompileEntry(Entry& entry, FairWork::Slice& slice);
  // Sets `over_budget` where it took more than every caller that waits lets it take.
  Result Compile(const Entry& entry, FairWork::Slice& slice, bool& over_budget);
  absl::Duration BudgetOf(const Entry& entry);

  const int64_t vocabulary_size_;
  const Options options_;

  mutable absl::Mutex mutex_;
  bool has_vocabulary_ ABSL_GUARDED_BY(mutex_) = false;  // or it is being made
  std::optional<absl::StatusOr<std::shared_ptr<const TokenVocabulary>>> vocabulary_
      ABSL_GUARDED_BY(mutex_);
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // the last asked for first
  // Dropped before their jobs have ended, which end soon: they are no longer known by their keys.
  Entries dropped_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Entries::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
  std::vector<Entry*> without_job_ ABSL_GUARDED_BY(mutex_);  // until the vocabulary is known
  size_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of what texts used when last measured
  Ticket last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<FairWork> work_;  // last: its threads use what is above
};

}  // namespace sluice
