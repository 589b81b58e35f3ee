// The server's end of a stream of responses to one request, over gRPC's callback API: responses are
// queued from any thread. Nothing blocks.
//
// Lifetime: held by shared_ptr; gRPC keeps a writer alive until its call is over, holders may keep
// it longer. Sending on a call that is over does nothing.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/streams/response_queue.h"

namespace sluice {

// `Reactor` is gRPC's, or one that is derived from it.
template <class Response, class Reactor = grpc::ServerWriteReactor<Response>>
class ServerWriter : public ResponseQueue<Reactor, Response> {
 public:
  static std::shared_ptr<ServerWriter> Start() {
    auto writer = std::shared_ptr<ServerWriter>(new ServerWriter());
    writer->self_ = writer;
    return writer;
  }

  // Calls `on_cancel` at most once, when the client leaves or its deadline passes, unless the call
  // is over before; at once where the client has left already. Thread-safe.
  void OnCancelCall(std::function<void()> on_cancel) {
    {
      absl::MutexLock lock(&cancel_mutex_);
      if (!cancelled_) {
        on_cancel_ = std::move(on_cancel);
        return;
      }
    }
    on_cancel();
  }

 private:
  ServerWriter() = default;

  void OnCancel() override {
    std::function<void()> on_cancel;
    {
      absl::MutexLock lock(&cancel_mutex_);
      cancelled_ = true;
      on_cancel = std::exchange(on_cancel_, nullptr);
    }
    if (on_cancel != nullptr) on_cancel();
    this->Close(absl::CancelledError("the caller left"));
  }

  void OnDone() override {
    // Destroyed last, after the lock is released and with what the callback held.
    const std::shared_ptr<ServerWriter> self = std::move(self_);
    std::function<void()> on_cancel;
    this->StopSending();
    absl::MutexLock lock(&cancel_mutex_);
    on_cancel = std::exchange(on_cancel_, nullptr);
  }

  absl::Mutex cancel_mutex_;
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(cancel_mutex_);
  bool cancelled_ ABSL_GUARDED_BY(cancel_mutex_) = false;
  std::shared_ptr<ServerWriter> self_;  // cleared when gRPC is done with the call
};

}  // namespace sluice
