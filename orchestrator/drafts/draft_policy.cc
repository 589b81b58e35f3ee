#include "orchestrator/drafts/draft_policy.h"

#include "absl/strings/str_cat.h"

namespace sluice {

std::string_view Name(DraftPolicy policy) {
  return policy == DraftPolicy::kAlways ? "always" : "measured";
}

absl::StatusOr<DraftPolicy> ParseDraftPolicy(const std::string& text) {
  for (const DraftPolicy policy : {DraftPolicy::kMeasured, DraftPolicy::kAlways}) {
    if (text == Name(policy)) return policy;
  }
  return absl::InvalidArgumentError(absl::StrCat(text, " is neither measured nor always"));
}

}  // namespace sluice
