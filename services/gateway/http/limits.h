// Limits for one client. A flag of sluice-gateway sets each of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace sluice::http {

struct Limits {
  uint32_t max_header_bytes = 32 << 10;  // request line and headers; beyond: 431
  uint64_t max_body_bytes = 16 << 20;    // beyond: 413
  // A larger body is read once its request is admitted and has a share of the memory for bodies.
  uint64_t small_body_bytes = 16 << 10;
  // Beyond: one that waits for a request is closed, or the new one is answered 503.
  int max_connections = 4096;
  // From the first byte of a request (or the connection's start) to the end of its headers.
  absl::Duration header_timeout = absl::Seconds(10);
  // From there to the end of its body. Beyond either: 408.
  absl::Duration body_timeout = absl::Seconds(60);
  // Between two requests of a connection; then it is closed without a word.
  absl::Duration idle_timeout = absl::Seconds(75);
  // How long a client may accept no byte of a response before the connection is dropped.
  absl::Duration write_timeout = absl::Seconds(60);
  // A response with this much unsent is congested: its source is to pause.
  size_t congestion_bytes = 64 << 10;
};

}  // namespace sluice::http
