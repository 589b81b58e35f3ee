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

absl::StatusOr<std::string> MemoryRendezvousStore::Get(const std::string& key, Deadline deadline,
                                                       const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  });
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_over = [&] { return stop.stop_requested() || values_.count(key) != 0; };
  if (!changed_.wait_until(lock, deadline.time(), is_over)) {
    return absl::DeadlineExceededError(
        absl::StrCat("rendezvous key '", key, "' was not set in time"));
  }
  if (values_.count(key) == 0) return absl::CancelledError("told to stop waiting for a rank");
  return values_.at(key);
}

}  // namespace sluice
