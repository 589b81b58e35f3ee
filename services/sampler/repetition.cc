#include "services/sampler/repetition.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sluice {
namespace {

// By distance from the end, how many tokens before the one at that distance equal the last ones:
// entry d is the length of the longest common suffix of `tokens` and of `tokens` without its last d
// (the Z function of the reversed tokens; Gusfield 1997), d >= 1.
std::vector<int32_t> CommonSuffixes(absl::Span<const int32_t> tokens) {
  const auto size = static_cast<int32_t>(tokens.size());
  const auto from_end = [&](int32_t i) { return tokens[size - 1 - i]; };
  std::vector<int32_t> common(size, 0);
  int32_t left = 0, right = 0;  // the stretch [left, right) known to equal the start
  for (int32_t i = 1; i < size; ++i) {
    int32_t length = i < right ? std::min(right - i, common[i - left]) : 0;
    while (i + length < size && from_end(length) == from_end(i + length)) ++length;
    if (i + length > right) {
      left = i;
      right = i + length;
    }
    common[i] = length;
  }
  return common;
}

}  // namespace

absl::flat_hash_set<int32_t> RepeatedNgramEnds(absl::Span<const int32_t> tokens, int32_t n) {
  absl::flat_hash_set<int32_t> ends;
  const size_t known = n - 1;  // tokens of the n-gram that are there already
  if (tokens.size() < known) return ends;
  const absl::Span<const int32_t> last = tokens.subspan(tokens.size() - known);
  for (size_t end = known; end < tokens.size(); ++end) {
    // The one just before the end first: it rules out nearly all.
    if (known > 0 && tokens[end - 1] != last.back()) continue;
    if (std::equal(last.begin(), last.end(), tokens.begin() + (end - known))) {
      ends.insert(tokens[end]);
    }
  }
  return ends;
}

absl::flat_hash_map<int32_t, int32_t> RepeatedRuns(absl::Span<const int32_t> tokens,
                                                   const absl::flat_hash_set<int32_t>& breakers) {
  absl::flat_hash_map<int32_t, int32_t> runs;
  const auto size = static_cast<int32_t>(tokens.size());
  int32_t longest = 0;  // tokens at the end without a breaker
  while (longest < size && !breakers.contains(tokens[size - 1 - longest])) ++longest;
  if (longest == 0) return runs;
  const std::vector<int32_t> common = CommonSuffixes(tokens);
  for (int32_t distance = 1; distance < size; ++distance) {
    const int32_t length = std::min(common[distance], longest);
    const int32_t next = tokens[size - distance];
    if (length == 0 || breakers.contains(next)) continue;
    int32_t& run = runs[next];
    run = std::max(run, length);
  }
  return runs;
}

}  // namespace sluice
