// A rendezvous within one process: what an orchestrator serves from, and what ranks that are
// threads use directly. Thread-safe.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "kernels/communicator/rendezvous_store.h"

namespace sluice {

class MemoryRendezvousStore final : public RendezvousStore {
 public:
  absl::Status Set(const std::string& key, std::string bytes) override;
  absl::StatusOr<std::string> Get(const std::string& key, Deadline deadline,
                                  const std::stop_token& stop) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
