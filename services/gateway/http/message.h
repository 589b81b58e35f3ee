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
  std::string method;     // upper-case
  std::string path;       // without the query; percent-decoded
  std::string query;      // without its question mark; not decoded
  std::string authority;  // the host that is called, and its port if any; empty in HTTP/1.0 without
  std::string peer;       // the client's address, as PeerOf() has it
  Headers headers;
  std::string body;
  bool keep_alive = true;  // the connection may serve another request
  bool chunked = true;     // the client understands chunked transfer (HTTP/1.1)
  // Of a request that this process makes itself (services/gateway/batches), never a client's: the
  // tenant that it is made for where callers do not show who they are, and whose prompts alone its
  // prompts may share kept prefixes with.
  std::string tenant;
  std::string cache_scope;

  // The first header of this (lower-case) name.
  std::optional<absl::string_view> Header(absl::string_view name) const;
  // How many headers have this name.
  size_t Count(absl::string_view name) const;
  // All headers of this name, which are one list: joined by commas; empty where there are none.
  std::string Joined(absl::string_view name) const;
};

struct Response {
  int status = 200;
  Headers headers;  // without content-length, transfer-encoding, connection and date
  std::string body;
};

// The host of HOST or HOST:PORT, lower-case; an IPv6 address in its brackets.
std::string HostOf(absl::string_view authority);

// The text with each %XX as the byte that it stands for. Nothing where one is not complete, or
// stands for a control character.
std::optional<std::string> PercentDecoded(absl::string_view text);

// "Not Found" for 404.
absl::string_view ReasonPhrase(int status);

}  // namespace sluice::http
