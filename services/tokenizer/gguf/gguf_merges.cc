#include "services/tokenizer/gguf/gguf_merges.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

// A way to make a token of two.
struct Candidate {
  double score = 0;  // of the token
  size_t token = 0;  // its id
  size_t left = 0;   // ids of the parts
  size_t right = 0;
  int left_chars = 0;
  int right_chars = 0;
  size_t left_bytes = 0;
};

int NumChars(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsUtf8Continuation(c); }));
}

}  // namespace

std::vector<MergePair> MergesOfScores(absl::Span<const std::string_view> tokens,
                                      absl::Span<const double> scores) {
  absl::flat_hash_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!tokens[id].empty()) ids.emplace(tokens[id], id);
  }
  std::vector<Candidate> candidates;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    for (size_t at = 1; at < token.size(); ++at) {
      if (IsUtf8Continuation(token[at])) continue;
      const auto left = ids.find(token.substr(0, at)), right = ids.find(token.substr(at));
      if (left == ids.end() || right == ids.end()) continue;
      candidates.push_back({scores[id], id, left->second, right->second, NumChars(left->first),
                            NumChars(right->first), at});
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    const auto falling = [](const Candidate& c) {
      return std::tuple(c.score, c.left_chars, c.right_chars);
    };
    if (falling(a) != falling(b)) return falling(a) > falling(b);
    return std::tuple(a.token, a.left, a.right) < std::tuple(b.token, b.left, b.right);
  });
  std::vector<MergePair> merges;
  merges.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    const std::string_view token = tokens[candidate.token];
    merges.emplace_back(token.substr(0, candidate.left_bytes), token.substr(candidate.left_bytes));
  }
  return merges;
}

}  // namespace sluice
