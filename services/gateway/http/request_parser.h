// Requests from bytes, as they come in pieces of any size, by RFC 9112. What a message's framing
// leaves open is refused: transfer codings but chunked (501), contents that are coded (415), a
// missing or second Host (400). Trailers are read and dropped. The only file that knows Boost.Beast,
// whose headers take a compiler seconds. Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "services/gateway/http/limits.h"
#include "services/gateway/http/message.h"

namespace sluice::http {

class RequestParser {
 public:
  enum class State {
    kNothing,   // no byte of a request yet
    kHeader,    // within request line and headers
    kBody,      // the headers are complete
    kComplete,  // TakeRequest() has it
    kFailed,    // failure() says how; the connection can't go on
  };
  struct Failure {
    int status = 400;     // what HTTP answers
    std::string message;  // for people
  };

  explicit RequestParser(const Limits& limits);
  ~RequestParser();

  // Consumes the bytes, which may hold more than one request: what follows the first is kept.
  void Feed(absl::string_view bytes);

  State state() const { return state_; }
  // The request without its body. REQUIRES: state() is kBody or kComplete.
  const Request& head() const { return head_; }
  // Of the body: how many bytes are there, and at least are to come, as far as is said; chunks do not
  // say it ahead.
  uint64_t num_body_bytes() const;
  // Held for the request at work and those behind it.
  uint64_t num_held_bytes() const;
  const Failure& failure() const { return failure_; }
  // Bytes of later requests that wait behind a complete one.
  size_t num_waiting_bytes() const { return waiting_.size(); }
  // True once per request, when its headers are complete and it asks for "100 Continue" before it
  // sends its body.
  bool TakeExpectation();

  // REQUIRES: state() is kComplete. Goes on with the bytes that wait.
  Request TakeRequest();

 private:
  struct Parser;

  void Parse();
  void SkipEmptyLines();
  void TakeHead();
  void Fail(int status, absl::string_view message);

  const Limits limits_;
  std::unique_ptr<Parser> parser_;
  std::string waiting_;  // not yet consumed
  Request head_;
  State state_ = State::kNothing;
  bool expects_continue_ = false;
  Failure failure_;
};

}  // namespace sluice::http
