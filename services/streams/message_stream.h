// The client's end of a bidirectional stream as code on an event loop sees it: over gRPC
// (PostedStream), or a simulated network. Everything happens on the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "services/common/event_loop.h"
#include "services/streams/client_stream.h"

namespace sluice {

template <class Request, class Response>
class MessageStream {
 public:
  struct Handler {
    // One at a time, in order.
    std::function<void(Response response)> on_response;
    // The stream is over; the last call. Not made where the stream is destroyed before.
    std::function<void(absl::Status status)> on_done;
  };

  // Ends the stream; no call of the handler follows.
  virtual ~MessageStream() = default;

  // Does nothing on a stream that is over. What is left in `request` is good for its memory alone.
  virtual void Send(Request&& request) = 0;
};

// A gRPC stream whose events are posted to a loop.
template <class Request, class Response>
class PostedStream final : public MessageStream<Request, Response> {
 public:
  using Stream = ClientStream<Request, Response>;
  using Handler = typename MessageStream<Request, Response>::Handler;

  // `method` and `merge` as for ClientStream::Start.
  PostedStream(const Post& post, const typename Stream::Method& method, Handler handler,
               std::function<bool(Request& into, Request& next)> merge = nullptr)
      : state_(std::make_shared<State>(State{true, std::move(handler)})),
        stream_(
            Stream::Start(method, {.on_response =
                                       [post, state = state_](Response response) {
                                         post([state, response = std::move(response)]() mutable {
                                           if (state->open)
                                             state->handler.on_response(std::move(response));
                                         });
                                       },
                                   .on_done =
                                       [post, state = state_](absl::Status status) {
                                         post([state, status = std::move(status)] {
                                           if (state->open) state->handler.on_done(status);
                                         });
                                       },
                                   .merge = std::move(merge)})) {}

  ~PostedStream() override {
    state_->open = false;
    stream_->Cancel();
  }

  void Send(Request&& request) override { stream_->Send(std::move(request)); }

 private:
  // Of the loop's thread, but for its end.
  struct State {
    bool open;
    const Handler handler;
  };

  const std::shared_ptr<State> state_;
  const std::shared_ptr<Stream> stream_;
};

}  // namespace sluice
