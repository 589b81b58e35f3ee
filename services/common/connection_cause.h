// Extracts the cause of a failed connection, in words for people. Pure function.
#pragma once

#include <string>

namespace sluice {

// The last part of gRPC's chain of causes, such as "Connection refused", and what OpenSSL says of a
// handshake in other words: "it does not speak TLS". A message without such a chain is returned as
// it is.
std::string ConnectionCause(const std::string& message);

}  // namespace sluice
