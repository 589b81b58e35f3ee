// GET over HTTP or HTTPS by libcurl, with the waits and limits of a download. One object for one
// thread at a time; it keeps its connection between calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sluice {

struct HttpTransferOptions {
  std::string token;  // sent as a bearer token to the host of the address alone
  absl::Duration stall_timeout = absl::Seconds(30);  // without a byte; then UNAVAILABLE
  std::function<bool()> cancelled;                   // asked about once a second; then CANCELLED
};

struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;
};

// What came of a GET that the server answered.
struct HttpAnswer {
  int status = 0;            // of the last of the answers, redirections followed
  uint64_t range_begin = 0;  // of Content-Range, where status is 206
  std::optional<absl::Duration> retry_after;
  std::string message;  // of X-Error-Message, at most 200 printable bytes
};

class HttpTransfer {
 public:
  explicit HttpTransfer(HttpTransferOptions options);
  ~HttpTransfer();
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;

  // Asks for `url`, or for a range of it. `sink` gets the bytes of an answer of status 200, or of 206
  // where a range was asked for, and returns whether to go on; those of other answers are dropped,
  // and a server that sends the whole instead of a range is not waited for. An answer that is cut
  // short or of another range, a connection that cannot be made and a certificate that does not
  // hold are UNAVAILABLE; where `sink` returned false, ABORTED. https redirects to https alone.
  absl::StatusOr<HttpAnswer> Get(const std::string& url, const std::optional<ByteRange>& range,
                                 absl::FunctionRef<bool(absl::string_view bytes)> sink);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// The status that an answer other than 200 and 206 stands for: 401 and 403 are PERMISSION_DENIED, 404
// NOT_FOUND, 408, 429 and 5xx UNAVAILABLE, all others FAILED_PRECONDITION. `what` begins its message.
absl::Status StatusOfAnswer(const HttpAnswer& answer, absl::string_view what);

}  // namespace sluice
