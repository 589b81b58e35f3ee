#include "services/sampler/constraints/constraint_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/sampler/constraints/constraint_compiler.h"

namespace sluice {
namespace {

// One that takes long does not hold up the others.
constexpr int kNumThreads = 2;

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

}  // namespace

ConstraintStore::ConstraintStore(int64_t vocabulary_size, const Options& options)
    : vocabulary_size_(vocabulary_size), options_(options) {
  for (int i = 0; i < kNumThreads; ++i) threads_.emplace_back([this] { Loop(); });
}

ConstraintStore::~ConstraintStore() {
  std::vector<Callback> callbacks;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    for (Entry& entry : entries_) {
      for (Waiter& waiter : entry.waiters) callbacks.push_back(std::move(waiter.callback));
      entry.waiters.clear();
    }
  }
  for (std::thread& thread : threads_) thread.join();
  for (const Callback& callback : callbacks) callback(absl::CancelledError("shutting down"));
}

bool ConstraintStore::has_vocabulary() const {
  absl::MutexLock lock(&mutex_);
  return has_vocabulary_;
}

void ConstraintStore::SetVocabulary(const v1::ConstraintVocabulary& vocabulary) {
  absl::MutexLock lock(&mutex_);
  if (std::exchange(has_vocabulary_, true)) return;
  told_ = vocabulary;
}

size_t ConstraintStore::size() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

// ---- Asking ----

ConstraintStore::Ticket ConstraintStore::Prepare(const v1::Constraint& constraint,
                                                 Callback callback) {
  std::optional<Result> known;
  Ticket ticket = 0;
  {
    absl::MutexLock lock(&mutex_);
    std::string key = constraint.SerializeAsString();
    Entry* entry = Find(key);
    if (entry == nullptr) {
      if (absl::Status room = MakeRoom(); !room.ok()) {
        known = room;
      } else {
        entry = &Add(std::move(key));
        waiting_.push_back(entry);
      }
    }
    if (entry != nullptr) known = entry->result;
    ticket = ++last_ticket_;
    if (!known.has_value()) {
      entry->waiters.push_back({.ticket = ticket, .callback = std::move(callback)});
      return ticket;
    }
  }
  callback(*known);
  return ticket;
}

void ConstraintStore::Leave(Ticket ticket) {
  Callback callback;
  {
    absl::MutexLock lock(&mutex_);
    callback = TakeWaiter(ticket);
  }
  if (callback != nullptr) callback(absl::CancelledError("the caller left"));
}

ConstraintStore::Callback ConstraintStore::TakeWaiter(Ticket ticket) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const auto waiter = std::find_if(entry->waiters.begin(), entry->waiters.end(),
                                     [ticket](const Waiter& w) { return w.ticket == ticket; });
    if (waiter == entry->waiters.end()) continue;
    Callback callback = std::move(waiter->callback);
    entry->waiters.erase(waiter);
    if (entry->waiters.empty() && !entry->is_planned) Drop(entry);
    return callback;
  }
  return nullptr;
}

void ConstraintStore::Drop(Entries::iterator entry) {
  by_key_.erase(entry->key);
  entry->stop.request_stop();
  const auto place = std::find(waiting_.begin(), waiting_.end(), &*entry);
  if (place == waiting_.end()) {
    return dropped_.splice(dropped_.begin(), entries_, entry);  // somebody compiles it
  }
  waiting_.erase(place);
  entries_.erase(entry);
}

void ConstraintStore::Hurry(const v1::Constraint& constraint) {
  absl::MutexLock lock(&mutex_);
  Hurried(constraint.SerializeAsString());
}

ConstraintStore::Result ConstraintStore::Get(const v1::Constraint& constraint) {
  const std::string key = constraint.SerializeAsString();
  absl::MutexLock lock(&mutex_);
  if (!has_vocabulary_) {
    return absl::FailedPreconditionError("nobody has told what tokens stand for");
  }
  Entry& entry = Hurried(key);
  const auto is_done = [&entry] { return entry.result.has_value(); };
  ++entry.num_waiting;
  mutex_.Await(absl::Condition(&is_done));
  --entry.num_waiting;
  return *entry.result;
}

ConstraintStore::Entry* ConstraintStore::Find(const std::string& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &entries_.front();
}

ConstraintStore::Entry& ConstraintStore::Add(std::string key) {
  Entry& entry = entries_.emplace_front();
  entry.key = std::move(key);
  by_key_.emplace(entry.key, entries_.begin());
  return entry;
}

ConstraintStore::Entry& ConstraintStore::Hurried(std::string key) {
  Entry* entry = Find(key);
  const bool is_new = entry == nullptr;
  if (is_new) entry = &Add(std::move(key));
  entry->is_planned = true;
  if (is_new) {
    waiting_.push_front(entry);
    return *entry;
  }
  const auto place = std::find(waiting_.begin(), waiting_.end(), entry);
  if (place == waiting_.end()) return *entry;  // somebody compiles it, or has
  waiting_.erase(place);
  waiting_.push_front(entry);
  return *entry;
}

absl::Status ConstraintStore::MakeRoom() {
  if (std::ssize(waiting_) >= options_.max_waiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat(waiting_.size(), " constraints wait to be compiled already"));
  }
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
    if (IsUsed(*it->result) || it->num_waiting > 0) {
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

bool ConstraintStore::HasWork() const {
  return stopping_ || told_.has_value() || (vocabulary_.has_value() && !waiting_.empty());
}

void ConstraintStore::Loop() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(this, &ConstraintStore::HasWork));
    if (stopping_) return;
    if (told_.has_value()) {
      MakeVocabulary();
    } else {
      CompileNext();
    }
  }
}

void ConstraintStore::MakeVocabulary() {
  v1::ConstraintVocabulary told = *std::exchange(told_, std::nullopt);
  mutex_.Unlock();
  auto made = VocabularyOf(told, vocabulary_size_);
  mutex_.Lock();
  vocabulary_ = std::move(made);
}

void ConstraintStore::CompileNext() {
  Entry& entry = *waiting_.front();
  waiting_.pop_front();
  const auto vocabulary = *vocabulary_;
  mutex_.Unlock();
  Result result = Compile(entry.key, vocabulary, entry.stop.get_token());
  mutex_.Lock();
  if (entry.stop.stop_requested()) {
    dropped_.remove_if([&entry](const Entry& dropped) { return &dropped == &entry; });
    return;
  }
  entry.result = result;
  const std::vector<Waiter> waiters = std::exchange(entry.waiters, {});
  ForgetUnused();  // not this one, which `result` uses
  if (waiters.empty()) return;
  mutex_.Unlock();
  for (const Waiter& waiter : waiters) waiter.callback(result);
  result = absl::UnknownError("");  // whoever uses it has it
  mutex_.Lock();
}

ConstraintStore::Result ConstraintStore::Compile(
    const std::string& key,
    const absl::StatusOr<std::shared_ptr<const TokenVocabulary>>& vocabulary,
    const std::stop_token& stop) const {
  if (!vocabulary.ok()) return vocabulary.status();
  v1::Constraint constraint;
  if (!constraint.ParseFromString(key)) return absl::InternalError("a constraint can't be parsed");
  absl::StatusOr<std::unique_ptr<Grammar>> grammar = CompileConstraint(constraint, stop);
  if (!grammar.ok()) return grammar.status();
  return Constraint::Create(*std::move(grammar), *vocabulary, options_.limits);
}

}  // namespace sluice
