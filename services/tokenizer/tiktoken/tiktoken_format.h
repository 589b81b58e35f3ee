// Split expression and special tokens of a tiktoken model, which its rank file does not contain. A
// plain value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/tokenizer/vocabulary/added_tokens.h"

namespace sluice {

struct TiktokenFormat {
  std::string pattern;                     // text is split at its matches
  std::vector<AddedToken> special_tokens;  // with their ids
  std::optional<std::string> bos_token;    // put before every text
};

// Names that TiktokenPreset knows, for messages.
inline constexpr std::string_view kTiktokenPresets =
    "cl100k_base, gpt2, llama3, o200k_base, p50k_base, r50k_base";

// nullopt for another name. A preset's name may go without "_base".
std::optional<TiktokenFormat> TiktokenPreset(std::string_view name);

}  // namespace sluice
