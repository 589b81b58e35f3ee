#include "services/sampler/constraints/constraint_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/messages/error_reason.h"
#include "services/sampler/constraints/constraint_compiler.h"

namespace sluice {
namespace {

absl::StatusOr<std::shared_ptr<const TokenVocabulary>> VocabularyOf(v1::ConstraintVocabulary& told,
                                                                    int64_t size) {
  TokenVocabularyOptions options;
  options.bytes.resize(size);
  const int64_t num_told = std::min<int64_t>(size, told.token_bytes_size());
  for (int64_t id = 0; id < num_told; ++id) {
    options.bytes[id] = std::move(*told.mutable_token_bytes(static_cast<int>(id)));
  }
  for (const int32_t id : told.end_token_ids()) {
    if (id < 0 || id >= size) continue;
    options.bytes[id].clear();
    options.end_ids.push_back(id);
  }
  return TokenVocabulary::Create(std::move(options));
}

bool IsUsed(const ConstraintStore::Result& result) {
  return result.ok() && result->use_count() > 1;
}

size_t MemoryOf(const ConstraintStore::Result& result) {
  return result.ok() ? (*result)->memory() : 0;
}

// Whether one was compiled by another tenant is nobody's business.
std::string KeyOf(const std::string& tenant, const std::string& constraint) {
  return absl::StrCat(tenant.size(), ":", tenant, constraint);
}

}  // namespace

ConstraintStore::ConstraintStore(int64_t vocabulary_size, const Options& options)
    : vocabulary_size_(vocabulary_size), options_(options) {
  work_.emplace(options.work);
}

ConstraintStore::~ConstraintStore() {
  std::vector<Callback> callbacks;
  {
    absl::MutexLock lock(&mutex_);
    for (Entry& entry : entries_) {
      entry.stop.request_stop();
      for (Waiter& waiter : entry.waiters) callbacks.push_back(std::move(waiter.callback));
      entry.waiters.clear();
    }
  }
  work_.reset();
  for (const Callback& callback : callbacks) {
    callback(absl::CancelledError("shutting down"), absl::ZeroDuration());
  }
}

bool ConstraintStore::has_vocabulary() const {
  absl::MutexLock lock(&mutex_);
  return has_vocabulary_;
}

void ConstraintStore::SetVocabulary(const v1::ConstraintVocabulary& vocabulary) {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(has_vocabulary_, true)) return;
  }
  // Nobody's in particular, and everybody's: before all others.
  (void)work_->Add({.owner = {.tenant = "", .weight = 1},
                    .needs_room = false,
                    .run = [this, told = vocabulary](FairWork::Slice&) mutable {
                      MakeVocabulary(std::move(told));
                    }});
}

size_t ConstraintStore::size() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

// ---- Asking ----

ConstraintStore::Ticket ConstraintStore::Prepare(const v1::Constraint& constraint,
                                                 const WorkOwner& owner, Callback callback,
                                                 absl::Duration max_work) {
  return Ask(constraint, owner, /*needs_room=*/true,
             {.callback = std::move(callback), .max_work = max_work});
}

ConstraintStore::Ticket ConstraintStore::Need(const v1::Constraint& constraint,
                                              const WorkOwner& owner, Callback callback) {
  return Ask(constraint, owner, /*needs_room=*/false, {.callback = std::move(callback)});
}

ConstraintStore::Ticket ConstraintStore::Ask(const v1::Constraint& constraint,
                                             const WorkOwner& owner, bool needs_room,
                                             Waiter waiter) {
  std::optional<Result> known;
  Ticket ticket = 0;
  {
    absl::MutexLock lock(&mutex_);
    std::string serialized = constraint.SerializeAsString();
    std::string key = KeyOf(owner.tenant, serialized);
    Entry* entry = Find(key);
    if (entry == nullptr) {
      const absl::StatusOr<Entry*> added = Add({.key = std::move(key),
                                                .owner = owner,
                                                .constraint = std::move(serialized),
                                                .needs_room = needs_room});
      if (added.ok()) {
        entry = *added;
      } else {
        known = added.status();
      }
    }
    if (entry != nullptr) known = entry->result;
    ticket = waiter.ticket = ++last_ticket_;
    if (!known.has_value()) {
      entry->waiters.push_back(std::move(waiter));
      return ticket;
    }
  }
  waiter.callback(*known, absl::ZeroDuration());
  return ticket;
}

void ConstraintStore::Leave(Ticket ticket) {
  Callback callback;
  {
    absl::MutexLock lock(&mutex_);
    callback = TakeWaiter(ticket);
  }
  if (callback != nullptr) callback(absl::CancelledError("the caller left"), absl::ZeroDuration());
}

ConstraintStore::Callback ConstraintStore::TakeWaiter(Ticket ticket) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const auto waiter = std::find_if(entry->waiters.begin(), entry->waiters.end(),
                                     [ticket](const Waiter& w) { return w.ticket == ticket; });
    if (waiter == entry->waiters.end()) continue;
    Callback callback = std::move(waiter->callback);
    entry->waiters.erase(waiter);
    if (entry->waiters.empty()) Drop(entry);
    return callback;
  }
  return nullptr;
}

void ConstraintStore::Drop(Entries::iterator entry) {
  by_key_.erase(entry->key);
  entry->stop.request_stop();
  const auto without_job = std::find(without_job_.begin(), without_job_.end(), &*entry);
  if (without_job == without_job_.end()) {
    return dropped_.splice(dropped_.begin(), entries_, entry);  // its job comes to it
  }
  without_job_.erase(without_job);
  entries_.erase(entry);
}

ConstraintStore::Entry* ConstraintStore::Find(const std::string& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &entries_.front();
}

absl::StatusOr<ConstraintStore::Entry*> ConstraintStore::Add(Entry given) {
  if (given.needs_room) {
    if (absl::Status room = CheckRoom(); !room.ok()) return room;
  }
  Entry& entry = entries_.emplace_front(std::move(given));
  if (!vocabulary_.has_value()) {
    without_job_.push_back(&entry);
  } else if (absl::Status room = AddJob(entry); !room.ok()) {
    entries_.pop_front();
    return room;
  }
  by_key_.emplace(entry.key, entries_.begin());
  return &entry;
}

absl::Status ConstraintStore::AddJob(Entry& entry) {
  return work_->Add(
      {.owner = entry.owner,
       .num_bytes = entry.key.size() + entry.constraint.size(),
       .is_long = true,
       .needs_room = entry.needs_room,
       .run = [this, &entry](FairWork::Slice& slice) { CompileEntry(entry, slice); }});
}

absl::Status ConstraintStore::CheckRoom() {
  if (used_bytes_ > options_.max_bytes) ForgetUnused();
  if (used_bytes_ > options_.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the constraints in use take ",
                                                     used_bytes_ >> 20, " MiB; accepted: up to ",
                                                     options_.max_bytes >> 20, " MiB in all"));
  }
  return absl::OkStatus();
}

void ConstraintStore::ForgetUnused() {
  size_t bytes = 0;
  used_bytes_ = 0;
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (!it->result.has_value()) {
      ++it;
      continue;
    }
    const size_t memory = MemoryOf(*it->result) + 2 * it->key.size() + sizeof(Entry);
    bytes += memory;
    if (IsUsed(*it->result)) {
      used_bytes_ += memory;
      ++it;
    } else if (bytes > options_.max_bytes) {
      bytes -= memory;
      by_key_.erase(it->key);
      it = entries_.erase(it);
    } else {
      ++it;
    }
  }
}

// ---- Making ----

void ConstraintStore::MakeVocabulary(v1::ConstraintVocabulary told) {
  auto made = VocabularyOf(told, vocabulary_size_);
  absl::MutexLock lock(&mutex_);
  vocabulary_ = std::move(made);
  for (Entry* entry : std::exchange(without_job_, {})) {
    entry->needs_room = false;  // it was taken already
    (void)AddJob(*entry);
  }
}

void ConstraintStore::CompileEntry(Entry& entry, FairWork::Slice& slice) {
  bool over_budget = false;
  Result result = entry.stop.stop_requested() ? Result(absl::CancelledError("nobody waits for it"))
                                              : Compile(entry, slice, over_budget);
  std::vector<Waiter> waiters;
  {
    absl::MutexLock lock(&mutex_);
    if (entry.stop.stop_requested()) {
      dropped_.remove_if([&entry](const Entry& dropped) { return &dropped == &entry; });
      return;
    }
    waiters = std::exchange(entry.waiters, {});
    if (over_budget) {  // the next may let it take more
      const auto known = by_key_.find(entry.key);
      entries_.erase(known->second);
      by_key_.erase(known);
    } else {
      entry.result = result;
      entry.constraint.clear();  // the key has it
      ForgetUnused();            // not this one, which `result` uses
    }
  }
  absl::Duration work = slice.used();
  for (const Waiter& waiter : waiters) {
    waiter.callback(result, std::exchange(work, absl::ZeroDuration()));
  }
}

absl::Duration ConstraintStore::BudgetOf(const Entry& entry) {
  absl::MutexLock lock(&mutex_);
  absl::Duration most;
  for (const Waiter& waiter : entry.waiters) most = std::max(most, waiter.max_work);
  return most;
}

ConstraintStore::Result ConstraintStore::Compile(const Entry& entry, FairWork::Slice& slice,
                                                 bool& over_budget) {
  absl::StatusOr<std::shared_ptr<const TokenVocabulary>> vocabulary =
      absl::FailedPreconditionError("it is not known what tokens stand for");
  {
    absl::MutexLock lock(&mutex_);
    if (vocabulary_.has_value()) vocabulary = *vocabulary_;
  }
  if (!vocabulary.ok()) return vocabulary.status();
  v1::Constraint constraint;
  if (!constraint.ParseFromString(entry.constraint)) {
    return absl::InternalError("a constraint can't be parsed");
  }
  std::stop_source stop;
  absl::Duration budget = BudgetOf(entry);
  const auto checkpoint = [&] {
    slice.Continue();
    const absl::Duration used = slice.used();
    // Callers that have come meanwhile may let it take more.
    if (used > budget) budget = BudgetOf(entry);
    over_budget = used > budget;
    if (over_budget || entry.stop.stop_requested()) stop.request_stop();
  };
  absl::StatusOr<std::unique_ptr<Grammar>> grammar =
      CompileConstraint(constraint, stop.get_token(), checkpoint);
  if (over_budget) return TooMuchWork(slice.used(), budget);
  if (!grammar.ok()) return IfExhaustedTooLarge(grammar.status());
  return std::make_shared<MaskQueue>(
      Constraint::Create(*std::move(grammar), *std::move(vocabulary), options_.limits), &*work_,
      entry.owner);
}

}  // namespace sluice
