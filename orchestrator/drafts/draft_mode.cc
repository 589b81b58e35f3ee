#include "orchestrator/drafts/draft_mode.h"

#include "absl/strings/str_cat.h"

namespace sluice {

std::string_view Name(DraftMode mode) { return mode == DraftMode::kNone ? "none" : "ngram"; }

absl::StatusOr<DraftMode> ParseDraftMode(const std::string& text) {
  for (const DraftMode mode : {DraftMode::kNone, DraftMode::kNgram}) {
    if (text == Name(mode)) return mode;
  }
  return absl::InvalidArgumentError(absl::StrCat(text, " is neither none nor ngram"));
}

}  // namespace sluice
