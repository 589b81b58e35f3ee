// Reading what a person typed: text that must be UTF-8, lists of token ids. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Offset of the first byte that belongs to no UTF-8 character (RFC 3629: no surrogates, no overlong
// forms, nothing above U+10FFFF); nothing where all of `text` is UTF-8.
std::optional<size_t> FirstInvalidUtf8(absl::string_view text);

// INVALID_ARGUMENT with the byte offset where `text` is not UTF-8.
absl::Status CheckUtf8(absl::string_view text);

// Reads "1,2,3"; an empty text is an empty list. INVALID_ARGUMENT names the first item that is not
// a 32-bit integer. Whether an id is in the vocabulary is the server's to say.
absl::StatusOr<std::vector<int32_t>> ParseTokenIds(const std::string& text);

}  // namespace sluice
