// One request and its response: what a handler gets. Handlers may keep it and answer later, from
// the exchange's loop. Either Respond() once, or BeginStream(), any number of Write() and
// EndStream(). What a client that has left is sent goes nowhere; on_closed tells.
//
// Everything but loop() is called on the loop's thread.
#pragma once

#include <functional>
#include <memory>

#include "absl/strings/string_view.h"
#include "services/gateway/http/loop.h"
#include "services/gateway/http/message.h"

namespace sluice::http {

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  // The request's body is not needed any more; it is empty from then on.
  virtual void ReleaseBody() = 0;
  virtual Loop& loop() = 0;

  virtual void Respond(Response response) = 0;
  // The head of a response whose length is not known yet; `response.body` is its first piece.
  virtual void BeginStream(Response response) = 0;
  virtual void Write(absl::string_view bytes) = 0;
  virtual void EndStream() = 0;

  // True while so much is unsent that the response's source should pause.
  virtual bool congested() const = 0;
  // Called each time that congestion has ended.
  virtual void set_on_drained(std::function<void()> on_drained) = 0;
  // Called at most once, where the client leaves before the response is complete.
  virtual void set_on_closed(std::function<void()> on_closed) = 0;
};

using Handler = std::function<void(std::shared_ptr<Exchange>)>;

}  // namespace sluice::http
