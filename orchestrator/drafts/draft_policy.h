// Which of its drafts a server computes, as its flag --draft_policy says it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice {

enum class DraftPolicy {
  kMeasured,  // those that save time, by what steps take and how often drafts are right
  kAlways,    // the likeliest proposal, and a draft model is asked before every token
};

std::string_view Name(DraftPolicy policy);

// "measured" or "always"; INVALID_ARGUMENT for anything else.
absl::StatusOr<DraftPolicy> ParseDraftPolicy(const std::string& text);

}  // namespace sluice
