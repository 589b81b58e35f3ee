// The server's end of a stream of responses to one request, over gRPC's callback API: responses are
// queued from any thread. Nothing blocks.
//
// Lifetime: held by shared_ptr; gRPC keeps a writer alive until its call is over, holders may keep
// it longer. Sending on a call that is over does nothing.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/common/status.h"

namespace sluice {

template <class Response>
class ServerWriter : public grpc::ServerWriteReactor<Response> {
 public:
  static std::shared_ptr<ServerWriter> Start() {
    auto writer = std::shared_ptr<ServerWriter>(new ServerWriter());
    writer->self_ = writer;
    return writer;
  }

  // Thread-safe.
  void Send(Response response) {
    absl::MutexLock lock(&mutex_);
    if (final_status_.has_value() || broken_) return;
    outgoing_.push_back(std::move(response));
    if (!writing_) WriteNext();
  }

  // Ends the call after what has been sent. The first call decides. Thread-safe.
  void Close(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    if (final_status_.has_value()) return;
    final_status_ = status;
    if (!writing_) FinishNow();
  }

  // Calls `on_cancel` at most once, when the client leaves or its deadline passes, unless the call
  // is over before; at once where the client has left already. Thread-safe.
  void OnCancelCall(std::function<void()> on_cancel) {
    {
      absl::MutexLock lock(&mutex_);
      if (!cancelled_) {
        on_cancel_ = std::move(on_cancel);
        return;
      }
    }
    on_cancel();
  }

 private:
  ServerWriter() = default;

  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    writing_ = true;
    this->StartWrite(&outgoing_.front());
  }

  void FinishNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return;
    finished_ = true;
    this->Finish(ToGrpc(*final_status_));
  }

  void OnWriteDone(bool ok) override {
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

  void OnCancel() override {
    std::function<void()> on_cancel;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      on_cancel = std::exchange(on_cancel_, nullptr);
    }
    if (on_cancel != nullptr) on_cancel();
    Close(absl::CancelledError("the caller left"));
  }

  void OnDone() override {
    // Destroyed last, after the lock is released and with what the callback held.
    std::shared_ptr<ServerWriter> self = std::move(self_);
    std::function<void()> on_cancel;
    absl::MutexLock lock(&mutex_);
    broken_ = true;
    on_cancel = std::exchange(on_cancel_, nullptr);
  }

  absl::Mutex mutex_;
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(mutex_);
  std::deque<Response> outgoing_ ABSL_GUARDED_BY(mutex_);  // the front one is being written
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> final_status_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ServerWriter> self_;  // cleared when gRPC is done with the call
};

}  // namespace sluice
