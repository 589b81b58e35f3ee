// Texts that are UTF-8. A protobuf message with a string that is not can't be parsed, and ends the
// stream that it comes by, for all that share it: texts that quote bytes, or cut them, are cleaned
// before.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// Whether `text` is UTF-8 (RFC 3629).
bool IsUtf8(absl::string_view text);

// `text` with "?" in place of each byte that belongs to no whole character; of more than `max_bytes`
// bytes, the characters that fit.
std::string CleanUtf8(absl::string_view text, size_t max_bytes = absl::string_view::npos);

// `text` where it is UTF-8, else with its bytes that are not escaped in hexadecimal, so that different
// names stay different.
std::string EscapedUnlessUtf8(absl::string_view text);

}  // namespace sluice
