// Groups texts by common prefixes. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

// What a text has in common with an earlier one.
struct SharedPrefix {
  int32_t with = -1;       // index of that one; -1: nothing worth waiting for
  int32_t num_tokens = 0;  // that both begin with
};

// Fewer tokens than these are computed again sooner than waited for.
inline constexpr int32_t kLeastShared = 16;

// Of each text, the earlier one with which it shares the most tokens, the first of equals.
std::vector<SharedPrefix> FindSharedPrefixes(absl::Span<const std::vector<int32_t>> texts);

}  // namespace sluice
