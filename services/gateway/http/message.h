// Requests and responses as values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace sluice::http {

// Names are lower-case.
using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;  // upper-case
  std::string path;    // without the query; not decoded
  std::string query;   // without its question mark
  Headers headers;
  std::string body;
  bool keep_alive = true;  // the connection may serve another request
  bool chunked = true;     // the client understands chunked transfer (HTTP/1.1)

  // The first header of this (lower-case) name.
  std::optional<absl::string_view> Header(absl::string_view name) const;
  // All headers of this name, which are one list: joined by commas; empty where there are none.
  std::string Joined(absl::string_view name) const;
};

struct Response {
  int status = 200;
  Headers headers;  // without content-length, transfer-encoding, connection and date
  std::string body;
};

// "Not Found" for 404.
absl::string_view ReasonPhrase(int status);

}  // namespace sluice::http
