// The server's end of a bidirectional stream, over gRPC's callback API: requests arrive as calls of
// a handler, responses are queued from any thread. Nothing blocks.
//
// Lifetime: held by shared_ptr; gRPC keeps a stream alive until it is over, holders may keep it
// longer. Sending on a stream that is over does nothing.
#pragma once

#include <grpcpp/server_context.h>
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

template <class Request, class Response>
class ServerStream : public grpc::ServerBidiReactor<Request, Response>,
                     public std::enable_shared_from_this<ServerStream<Request, Response>> {
 public:
  struct Handler {
    // Requests of one stream come one at a time, in order. Must not block.
    std::function<void(ServerStream& stream, Request request)> on_request;
    // The client sends no more: it half-closed, left, or the connection broke. Called once, after
    // the last on_request. A handler that does not Close() leaves the stream open for responses.
    std::function<void(ServerStream& stream)> on_requests_end;
  };

  // Starts serving; the result belongs to gRPC, which the service method returns it to.
  static ServerStream* Start(Handler handler) {
    auto stream = std::shared_ptr<ServerStream>(new ServerStream(std::move(handler)));
    stream->self_ = stream;
    stream->StartRead(&stream->incoming_);
    return stream.get();
  }

  // Thread-safe.
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

 private:
  explicit ServerStream(Handler handler) : handler_(std::move(handler)) {}

  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    writing_ = true;
    this->StartWrite(&outgoing_.front());
  }

  void FinishNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return;
    finished_ = true;
    this->Finish(ToGrpc(*final_status_));
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      handler_.on_requests_end(*this);
      return;
    }
    handler_.on_request(*this, std::move(incoming_));
    incoming_.Clear();
    this->StartRead(&incoming_);
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

  // The client is gone: what is queued would reach nobody.
  void OnCancel() override { Close(absl::CancelledError("the caller left")); }

  void OnDone() override {
    std::shared_ptr<ServerStream> self;
    {
      absl::MutexLock lock(&mutex_);
      broken_ = true;
      self = std::move(self_);
    }
  }

  const Handler handler_;
  Request incoming_;  // touched by gRPC's reads, one at a time

  absl::Mutex mutex_;
  std::deque<Response> outgoing_ ABSL_GUARDED_BY(mutex_);  // the front one is being written
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> final_status_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ServerStream> self_;  // cleared when gRPC is done with the stream
};

}  // namespace sluice
