// The answer to GetStatus calls that ask for no requests, made at most once in a while and shared by
// its callers: how much work they make does not grow with how often they ask. Thread-safe.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/common/steady_time.h"

namespace sluice {

class StatusSnapshot {
 public:
  // How old an answer may be.
  static constexpr absl::Duration kAge = absl::Milliseconds(2);

  // `make` returns a v1::GetStatusResponse, serialized.
  explicit StatusSnapshot(std::function<grpc::ByteBuffer()> make) : make_(std::move(make)) {}

  // Others wait while one makes it. The bytes are shared, not copied.
  grpc::ByteBuffer Get(SteadyTime now) {
    absl::MutexLock lock(&mutex_);
    if (!made_.has_value() || now - *made_ >= kAge) {
      bytes_ = make_();
      made_ = now;
    }
    return bytes_;
  }

 private:
  const std::function<grpc::ByteBuffer()> make_;
  absl::Mutex mutex_;
  std::optional<SteadyTime> made_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer bytes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
