// What the server's ends of streams share: responses are queued from any thread and written one at
// a time by gRPC's callback API. Nothing blocks.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/common/status.h"

namespace sluice {

// `Reactor` is gRPC's: ServerBidiReactor or ServerWriteReactor.
template <class Reactor, class Response>
class ResponseQueue : public Reactor {
 public:
  // Does nothing on a stream that is over. Thread-safe.
  void Send(Response response) {
    absl::MutexLock lock(&mutex_);
    if (final_status_.has_value() || broken_) return;
    outgoing_.push_back(std::move(response));
    if (!writing_) WriteNext();
  }

  // Ends the stream after what has been sent. The first call decides. Thread-safe.
  void Close(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    if (final_status_.has_value()) return;
    final_status_ = status;
    if (!writing_) FinishNow();
  }

 protected:
  // Nothing sent from now on would reach the client.
  void StopSending() {
    absl::MutexLock lock(&mutex_);
    broken_ = true;
  }

 private:
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    writing_ = true;
    this->StartWrite(&outgoing_.front());
  }

  void FinishNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return;
    finished_ = true;
    this->Finish(ToGrpc(*final_status_));
  }

  void OnWriteDone(bool ok) final {
    absl::MutexLock lock(&mutex_);
    outgoing_.pop_front();
    writing_ = false;
    if (!ok) {
      broken_ = true;
      outgoing_.clear();
    }
    if (!outgoing_.empty()) {
      WriteNext();
    } else if (final_status_.has_value()) {
      FinishNow();
    }
  }

  absl::Mutex mutex_;
  std::deque<Response> outgoing_ ABSL_GUARDED_BY(mutex_);  // the front one is being written
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> final_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
