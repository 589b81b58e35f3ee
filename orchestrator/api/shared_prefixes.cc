#include "orchestrator/api/shared_prefixes.h"

#include <algorithm>

namespace sluice {

std::vector<SharedPrefix> FindSharedPrefixes(absl::Span<const std::vector<int32_t>> texts) {
  std::vector<SharedPrefix> result(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const auto end =
          std::mismatch(texts[i].begin(), texts[i].end(), texts[j].begin(), texts[j].end()).first;
      const auto common = static_cast<int32_t>(end - texts[i].begin());
      if (common < kLeastShared || common <= result[i].num_tokens) continue;
      result[i] = {.with = static_cast<int32_t>(j), .num_tokens = common};
    }
  }
  return result;
}

}  // namespace sluice
