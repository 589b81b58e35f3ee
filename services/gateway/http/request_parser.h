// Requests from bytes, as they come in pieces of any size. The only file that knows Boost.Beast,
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
  void Fail(int status, absl::string_view message);

  const Limits limits_;
  std::unique_ptr<Parser> parser_;
  std::string waiting_;  // not yet consumed
  State state_ = State::kNothing;
  bool expects_continue_ = false;
  Failure failure_;
};

}  // namespace sluice::http
