// Why a connection failed, for people. Pure function.
#pragma once

#include <string>

namespace sluice {

// The last part of gRPC's chain of causes, such as "Connection refused". A message without such a
// chain is returned as it is.
std::string ConnectionCause(const std::string& message);

}  // namespace sluice
