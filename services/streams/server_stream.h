// The server's end of a bidirectional stream, over gRPC's callback API: requests arrive as calls of
// a handler, responses are queued from any thread. Nothing blocks.
//
// Lifetime: held by shared_ptr; gRPC keeps a stream alive until it is over, holders may keep it
// longer. Sending on a stream that is over does nothing.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "services/streams/response_queue.h"

namespace sluice {

template <class Request, class Response>
class ServerStream : public ResponseQueue<grpc::ServerBidiReactor<Request, Response>, Response>,
                     public std::enable_shared_from_this<ServerStream<Request, Response>> {
 public:
  struct Handler {
    // Requests of one stream come one at a time, in order. Must not block.
    std::function<void(ServerStream& stream, Request request)> on_request;
    // The client sends no more: it half-closed, left, or the connection broke. Called once, after
    // the last on_request. A handler that does not Close() leaves the stream open for responses.
    std::function<void(ServerStream& stream)> on_requests_end;
    // The client came over a unix socket.
    bool on_this_host = false;
    // The client is in this process.
    bool in_this_process = false;
  };

  // Starts serving; the result belongs to gRPC, which the service method returns it to.
  static ServerStream* Start(Handler handler) {
    auto stream = std::shared_ptr<ServerStream>(new ServerStream(std::move(handler)));
    stream->self_ = stream;
    stream->StartRead(&stream->incoming_);
    return stream.get();
  }

  // Whether the client is a process of this host, which may be offered a lane.
  bool on_this_host() const { return handler_.on_this_host; }
  bool in_this_process() const { return handler_.in_this_process; }

 private:
  explicit ServerStream(Handler handler) : handler_(std::move(handler)) {}

  void OnReadDone(bool ok) override {
    if (!ok) {
      handler_.on_requests_end(*this);
      return;
    }
    handler_.on_request(*this, std::move(incoming_));
    incoming_.Clear();
    this->StartRead(&incoming_);
  }

  // The client is gone: queued responses would not be delivered.
  void OnCancel() override { this->Close(absl::CancelledError("the caller left")); }

  void OnDone() override {
    const std::shared_ptr<ServerStream> self = std::move(self_);  // destroyed last
    this->StopSending();
  }

  const Handler handler_;
  Request incoming_;                    // touched by gRPC's reads, one at a time
  std::shared_ptr<ServerStream> self_;  // cleared when gRPC is done with the stream
};

}  // namespace sluice
