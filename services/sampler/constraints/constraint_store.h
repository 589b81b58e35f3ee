// The constraints that this process has compiled: made beside the steps, by threads of their own,
// and kept while there is room. What was refused is kept too, so that it is not tried again and
// again. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "services/constraint/engine/matcher.h"
#include "services/constraint/engine/token_vocabulary.h"
#include "sluice/v1/sampler.pb.h"

namespace sluice {

class ConstraintStore {
 public:
  using Result = absl::StatusOr<std::shared_ptr<Constraint>>;
  using Callback = std::function<void(const Result&)>;

  struct Options {
    // What all constraints may take; those that no text uses are forgotten beyond it, the one that
    // was asked for longest ago first.
    size_t max_bytes = size_t{512} << 20;
    int max_waiting = 64;  // to be compiled
    // Of each.
    ConstraintLimits limits{.max_bytes = size_t{32} << 20, .max_mask_bytes = size_t{8} << 20};
  };

  explicit ConstraintStore(int64_t vocabulary_size) : ConstraintStore(vocabulary_size, Options()) {}
  ConstraintStore(int64_t vocabulary_size, const Options& options);
  ConstraintStore(const ConstraintStore&) = delete;
  ConstraintStore& operator=(const ConstraintStore&) = delete;
  // Nobody may wait in Get() any more; callbacks that wait are told CANCELLED.
  ~ConstraintStore();

  // Whether SetVocabulary was called.
  bool has_vocabulary() const;
  // What tokens stand for; only the first call counts. Entries beyond the model's vocabulary are
  // left out, and missing ones have no text.
  void SetVocabulary(const v1::ConstraintVocabulary& vocabulary);

  // Names a call of Prepare() to Leave().
  using Ticket = uint64_t;
  // Calls back once the constraint is compiled or refused, with a status of constraint.proto:
  // at once where that is known, else from another thread. RESOURCE_EXHAUSTED where too many wait
  // or what texts use takes too much.
  Ticket Prepare(const v1::Constraint& constraint, Callback callback);
  // Calls back with CANCELLED, unless the constraint is known; what nobody waits for is not compiled,
  // or no further.
  void Leave(Ticket ticket);

  // Has it compiled before all that was only prepared: a plan needs it soon.
  void Hurry(const v1::Constraint& constraint);
  // The same, and waits for it.
  Result Get(const v1::Constraint& constraint);

  // What it holds.
  size_t size() const;

 private:
  struct Waiter {
    Ticket ticket = 0;
    Callback callback;
  };
  struct Entry {
    std::string key;
    int num_waiting = 0;      // in Get()
    bool is_planned = false;  // a plan needs it, whoever leaves
    std::optional<Result> result;
    std::vector<Waiter> waiters;
    std::stop_source stop;  // of compiling it: nobody waits for it any more
  };
  using Entries = std::list<Entry>;

  // The entry of a constraint, now the last asked for; null: there is none.
  Entry* Find(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds one that waits to be compiled.
  Entry& Add(std::string key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // One that is compiled before the others that wait.
  Entry& Hurried(std::string key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the waiter's callback from its entry, and with the last one the entry; null: there is none.
  Callback TakeWaiter(Ticket ticket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nobody waits for an entry without a result any more.
  void Drop(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Measures what there is, and forgets what nobody uses where it is too much.
  void ForgetUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void Loop();
  void MakeVocabulary() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CompileNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of the constraint with this key; takes its time, until `stop` is requested.
  Result Compile(const std::string& key,
                 const absl::StatusOr<std::shared_ptr<const TokenVocabulary>>& vocabulary,
                 const std::stop_token& stop) const;

  const int64_t vocabulary_size_;
  const Options options_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Told, to be made; empty once somebody makes it.
  std::optional<v1::ConstraintVocabulary> told_ ABSL_GUARDED_BY(mutex_);
  bool has_vocabulary_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::StatusOr<std::shared_ptr<const TokenVocabulary>>> vocabulary_
      ABSL_GUARDED_BY(mutex_);
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // the last asked for first
  // Dropped while somebody compiles them, who stops soon: they are no longer known by their keys.
  Entries dropped_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Entries::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
  std::deque<Entry*> waiting_ ABSL_GUARDED_BY(mutex_);  // entries without a result stay
  size_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;       // of what texts used when last measured
  Ticket last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;
};

}  // namespace sluice
