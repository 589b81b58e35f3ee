// A client of HTTP that sends any bytes, for tests of servers in the same process. Blocking.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace sluice::testing {

class HttpClient {
 public:
  // To a server at HOST:PORT, such as 127.0.0.1:8080, from the loopback address `from`. A test's
  // fault otherwise: it ends.
  explicit HttpClient(const std::string& address, const std::string& from = "127.0.0.1");
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // False where the server has closed.
  bool Send(absl::string_view bytes);
  // No more bytes are sent; answers are still read.
  void HalfClose();
  // What comes until the server closes, or nothing has come for `seconds`.
  std::string ReadAll(int seconds = 20);
  // One response with Content-Length or chunks, its head and its body as they came; what came where
  // the server closes before.
  std::string ReadResponse();

 private:
  bool Receive();

  int fd_ = -1;
  std::string received_;
};

}  // namespace sluice::testing
