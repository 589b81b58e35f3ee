// A tiktoken rank file: a line for each token, its bytes in base64 and its rank, which is its id.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {

// Whether `bytes` begins like a rank file.
bool LooksLikeTiktoken(std::string_view bytes);

// The tokens, spelled in the byte-level alphabet. INVALID_ARGUMENT naming the first line that is
// malformed or repeats a token or a rank, or a byte that is no token; `source` is the file's name
// in messages.
absl::StatusOr<Vocabulary> ParseTiktokenFile(std::string_view bytes, std::string_view source);

}  // namespace sluice
