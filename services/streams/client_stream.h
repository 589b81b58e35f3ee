// The client's end of a bidirectional stream, over gRPC's callback API: responses arrive as calls
// of a handler, requests are queued from any thread. Nothing blocks.
//
// Lifetime: held by shared_ptr; gRPC keeps a stream alive until on_done has been called, holders
// may keep it longer. Sending on a stream that is over does nothing.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/common/status.h"
#include "services/streams/sent_bytes.h"

namespace sluice {

template <class Request, class Response>
class ClientStream : public grpc::ClientBidiReactor<Request, Response> {
 public:
  struct Handler {
    // Responses come one at a time, in order. Must not block.
    std::function<void(Response response)> on_response;
    // The stream is over; called exactly once, last.
    std::function<void(absl::Status status)> on_done;
    // Where given: puts a request into the one before it, so that what waits to be written goes
    // together; false where they have to go apart.
    std::function<bool(Request& into, Request& next)> merge = nullptr;
  };
  // Calls the method on its stub's async interface:
  // `[&](auto* context, auto* reactor) { stub.async()->Run(context, reactor); }`.
  using Method = std::function<void(grpc::ClientContext*, ClientStream*)>;

  static std::shared_ptr<ClientStream> Start(const Method& method, Handler handler) {
    auto stream = std::shared_ptr<ClientStream>(new ClientStream(std::move(handler)));
    stream->self_ = stream;
    method(&stream->context_, stream.get());
    stream->AddHold();  // writes start outside of reactions until closed_
    stream->StartRead(&stream->incoming_);
    stream->StartCall();
    return stream;
  }

  // Leaves in `request` what was sent earlier: who sends much the same again and again uses its
  // memory. Thread-safe.
  void Send(Request&& request) {
    absl::MutexLock lock(&mutex_);
    if (closed_) return;
    std::swap(outgoing_.emplace_back(std::exchange(sent_, Request())), request);
    if (!writing_) WriteNext();
  }

  // No more requests follow those already sent. Thread-safe.
  void HalfClose() {
    absl::MutexLock lock(&mutex_);
    if (closed_) return;
    half_closing_ = true;
    if (!writing_) CloseWrites();
  }

  // Ends the call now; on_done follows. Thread-safe.
  void Cancel() { context_.TryCancel(); }

 private:
  explicit ClientStream(Handler handler) : handler_(std::move(handler)) {}

  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    writing_ = true;
    while (handler_.merge != nullptr && outgoing_.size() > 1 &&
           handler_.merge(outgoing_[0], outgoing_[1])) {
      outgoing_.erase(outgoing_.begin() + 1);
    }
    this->StartWrite(&outgoing_.front());
  }

  void CloseWrites() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (closed_) return;
    closed_ = true;
    if (half_closing_) this->StartWritesDone();
    this->RemoveHold();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {  // no more responses: the call is ending
      absl::MutexLock lock(&mutex_);
      half_closing_ = false;
      if (!writing_) CloseWrites();
      ending_ = true;
      return;
    }
    handler_.on_response(std::move(incoming_));
    incoming_.Clear();
    this->StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    if (ok) CountSent(outgoing_.front());
    sent_ = std::move(outgoing_.front());
    outgoing_.pop_front();
    writing_ = false;
    if (!ok || ending_) {
      outgoing_.clear();
      half_closing_ = false;
      CloseWrites();
    } else if (!outgoing_.empty()) {
      WriteNext();
    } else if (half_closing_) {
      CloseWrites();
    }
  }

  void OnDone(const grpc::Status& status) override {
    handler_.on_done(FromGrpc(status));
    std::shared_ptr<ClientStream> self = std::move(self_);
  }

  const Handler handler_;
  grpc::ClientContext context_;
  Response incoming_;  // touched by gRPC's reads, one at a time

  absl::Mutex mutex_;
  std::deque<Request> outgoing_ ABSL_GUARDED_BY(mutex_);  // the front one is being written
  Request sent_ ABSL_GUARDED_BY(mutex_) = {};             // the last one, for its memory
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;  // no write may start any more
  std::shared_ptr<ClientStream> self_;           // cleared when gRPC is done with the stream
};

}  // namespace sluice
