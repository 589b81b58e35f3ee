// The name of a model in a hub, a server with the HTTP interface of Hugging Face's.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

struct HubModel {
  std::string name;      // such as "Qwen/Qwen3-0.6B"
  std::string revision;  // a branch, tag or commit; "" for "main"

  std::string revision_or_main() const { return revision.empty() ? "main" : revision; }
};

// Whether `text` is ORGANISATION/NAME, each of 1 to 96 letters, digits, "-", "_" and ".", with
// neither a leading "." or "-" nor "..".
bool IsHubName(absl::string_view text);

// INVALID_ARGUMENT where the name is none, or where `revision` has other than the characters of
// names and "/", a leading "." or "-", or "..".
absl::StatusOr<HubModel> ParseHubModel(absl::string_view name, absl::string_view revision);

// Of the text behind --model: NAME or NAME@REVISION.
absl::StatusOr<HubModel> ParseHubModel(absl::string_view text);

// `text` with all bytes but letters, digits, "-", "_", "." and "~" as %XX.
std::string PercentEncoded(absl::string_view text);

}  // namespace sluice
