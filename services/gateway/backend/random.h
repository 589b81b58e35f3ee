// Numbers nobody can guess, for ids and for seeds that the client left open. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice::gateway {

uint64_t RandomNumber();
// "chatcmpl-" and 32 hexadecimal digits.
std::string RandomId(absl::string_view prefix);

}  // namespace sluice::gateway
