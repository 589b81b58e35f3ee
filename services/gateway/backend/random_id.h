// Unguessable ids of requests and responses. Thread-safe.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace sluice::gateway {

// "chatcmpl-" and 32 hexadecimal digits.
std::string RandomId(absl::string_view prefix);

}  // namespace sluice::gateway
