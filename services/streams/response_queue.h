// Queue of responses, shared by the server ends of streams: any thread adds responses, and gRPC's
// callback API writes them one at a time. Nothing blocks.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/common/status.h"
#include "services/streams/sent_bytes.h"

namespace sluice {

// `Reactor` is gRPC's: ServerBidiReactor or ServerWriteReactor.
template <class Reactor, class Response>
class ResponseQueue : public Reactor {
 public:
  // Does nothing on a stream that is over. Thread-safe.
  void Send(Response response) {
    absl::MutexLock lock(&mutex_);
    if (final_status_.has_value() || broken_) return;
    const size_t num_bytes = on_backlog_ == nullptr ? 0 : BytesOf(response);
    outgoing_.push_back({std::move(response), num_bytes});
    backlog_ += num_bytes;
    if (!writing_) WriteNext();
    TellBacklog();
  }

  // Calls `on_backlog` when more than `most_bytes` wait to be taken by the client (true), and again
  // when that has become half as much (false); in this order, and with the queue's lock held: it
  // must not call the queue. For responses that have a Length(). Called before anything is sent.
  void WatchBacklog(size_t most_bytes, std::function<void(bool full)> on_backlog) requires
      requires(const Response& response) {
    response.Length();
  }
  {
    absl::MutexLock lock(&mutex_);
    most_bytes_ = most_bytes;
    on_backlog_ = std::move(on_backlog);
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
  static size_t BytesOf(const Response& response) {
    if constexpr (requires { response.Length(); }) {
      return response.Length();
    } else {
      return 0;
    }
  }

  struct Outgoing {
    Response response;
    size_t num_bytes = 0;  // counted where the backlog is watched
  };

  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    writing_ = true;
    this->StartWrite(&outgoing_.front().response);
  }

  void TellBacklog() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (on_backlog_ == nullptr) return;
    if (backlog_ > most_bytes_ && !full_) {
      on_backlog_(full_ = true);
    } else if (backlog_ <= most_bytes_ / 2 && full_) {
      on_backlog_(full_ = false);
    }
  }

  void FinishNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return;
    finished_ = true;
    this->Finish(ToGrpc(*final_status_));
  }

  void OnWriteDone(bool ok) final {
    absl::MutexLock lock(&mutex_);
    if (ok) CountSent(outgoing_.front().response);
    backlog_ -= outgoing_.front().num_bytes;
    outgoing_.pop_front();
    writing_ = false;
    if (!ok) {
      broken_ = true;
      outgoing_.clear();
      backlog_ = 0;
    }
    TellBacklog();
    if (!outgoing_.empty()) {
      WriteNext();
    } else if (final_status_.has_value()) {
      FinishNow();
    }
  }

  absl::Mutex mutex_;
  std::deque<Outgoing> outgoing_ ABSL_GUARDED_BY(mutex_);  // the front one is being written
  size_t backlog_ ABSL_GUARDED_BY(mutex_) = 0;             // bytes of outgoing_
  size_t most_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void(bool)> on_backlog_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> final_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
