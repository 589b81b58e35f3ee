#include "kernels/communicator/memory_rendezvous_store.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status MemoryRendezvousStore::Set(const std::string& key, std::string bytes) {
  absl::MutexLock lock(&mutex_);
  if (!values_.try_emplace(key, std::move(bytes)).second) {
    return absl::AlreadyExistsError(absl::StrCat("rendezvous key '", key, "' is already set"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryRendezvousStore::Get(const std::string& key,
                                                       absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto is_set = [this, key]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return values_.find(key) != values_.end();
  };
  if (!mutex_.AwaitWithDeadline(absl::Condition(&is_set), deadline)) {
    return absl::DeadlineExceededError(
        absl::StrCat("rendezvous key '", key, "' was not set in time"));
  }
  return values_.find(key)->second;
}

}  // namespace sluice
