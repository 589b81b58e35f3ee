// Counts unauthenticated calls that were refused, and logs them by peer, at most one line a second
// each. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace sluice::gateway {

class RefusedCalls {
 public:
  // True where it is the first since the last Flush(), which is due some time later.
  bool Add(absl::string_view peer);
  // Logs what was counted since the last time.
  void Flush();

  int64_t total() const;

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, int64_t, std::less<>> counts_ ABSL_GUARDED_BY(mutex_);  // by peer
  int64_t total_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sluice::gateway
