// Checks whether a TCP port can be listened on. Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace sluice {

// Binds host:port for a moment and returns the port; for port 0, one that is free. `host` is an
// address or a name. UNAVAILABLE naming the address where it is in use or not one of
// this host.
absl::StatusOr<int> FindListenPort(const std::string& host, int port);

}  // namespace sluice
