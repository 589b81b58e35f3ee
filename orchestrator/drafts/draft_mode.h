// What a server drafts, as its flag --draft says it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice {

enum class DraftMode {
  kNone,   // nothing is guessed: only what a constraint forces is computed at once
  kNgram,  // also what the caller expects, and what followed the same tokens before
};

std::string_view Name(DraftMode mode);

// "none" or "ngram"; INVALID_ARGUMENT for anything else.
absl::StatusOr<DraftMode> ParseDraftMode(const std::string& text);

}  // namespace sluice
