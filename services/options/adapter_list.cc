#include "services/options/adapter_list.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace sluice {

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParseAdapterList(
    const std::string& text) {
  std::vector<std::pair<std::string, std::string>> adapters;
  for (const absl::string_view each : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> adapter =
        absl::StrSplit(each, absl::MaxSplits('=', 1));
    if (adapter.first.empty() || adapter.second.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", each, "\" is no adapter; accepted: NAME=DIR, several by comma"));
    }
    if (std::any_of(adapters.begin(), adapters.end(),
                    [&](const auto& other) { return other.first == adapter.first; })) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", adapter.first, "\" names two adapters; accepted: one folder a name"));
    }
    adapters.push_back(adapter);
  }
  return adapters;
}

}  // namespace sluice
