#include "kernels/communicator/memory_rendezvous_store.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status MemoryRendezvousStore::Set(const std::string& key, std::string bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!values_.try_emplace(key, std::move(bytes)).second) {
    return absl::AlreadyExistsError(absl::StrCat("rendezvous key '", key, "' is already set"));
  }
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryRendezvousStore::Get(const std::string& key, Deadline deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_set = [&] { return values_.count(key) != 0; };
  if (!changed_.wait_until(lock, deadline.time(), is_set)) {
    return absl::DeadlineExceededError(
        absl::StrCat("rendezvous key '", key, "' was not set in time"));
  }
  return values_.at(key);
}

}  // namespace sluice
