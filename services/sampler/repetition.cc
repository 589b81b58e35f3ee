#include "services/sampler/repetition.h"

#include <algorithm>
#include <cstddef>

namespace sluice {
namespace {

// Hashes are polynomials over the field of 2^61 - 1 elements (Karp and Rabin 1987).
constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
constexpr uint64_t kBase = 0x0bf58476d1ce4e5b % kPrime;

uint64_t Times(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  const uint64_t sum =
      static_cast<uint64_t>(product & kPrime) + static_cast<uint64_t>(product >> 61);
  return sum >= kPrime ? sum - kPrime : sum;
}

uint64_t Power(uint64_t base, uint64_t exponent) {
  uint64_t power = 1;
  for (; exponent > 0; exponent >>= 1, base = Times(base, base)) {
    if (exponent & 1) power = Times(power, base);
  }
  return power;
}

// Cuts of more tokens than this, which drafts do not make, cost a pass over the sequence.
constexpr size_t kMaxLevels = 64;

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

NgramEnds::NgramEnds(int32_t n)
    : num_known_(static_cast<size_t>(n) - 1), known_power_(Power(kBase, num_known_)) {}

uint64_t NgramEnds::ContextBefore(size_t end) const {
  const uint64_t before = Times(prefix_hashes_[end - num_known_], known_power_);
  const uint64_t hash = prefix_hashes_[end];
  return hash >= before ? hash - before : hash + kPrime - before;
}

void NgramEnds::OnAppend(absl::Span<const int32_t> tokens) {
  const int32_t token = tokens.back();
  if (size() >= num_known_) {
    const uint64_t context = ContextBefore(size());
    if (++counts_[{context, token}] == 1) ends_[context].push_back(token);
  }
  const uint64_t value = static_cast<uint64_t>(token) + 1;
  prefix_hashes_.push_back((Times(prefix_hashes_.back(), kBase) + value) % kPrime);
}

void NgramEnds::OnTruncate(absl::Span<const int32_t> tokens, int32_t size) {
  while (this->size() > static_cast<size_t>(size)) {
    prefix_hashes_.pop_back();
    if (this->size() < num_known_) continue;
    const uint64_t context = ContextBefore(this->size());
    const auto count = counts_.find({context, tokens[this->size()]});
    if (--count->second > 0) continue;
    counts_.erase(count);
    const auto ends = ends_.find(context);
    ends->second.pop_back();  // the context's newest end, because the newest token is cut first
    if (ends->second.empty()) ends_.erase(ends);
  }
}

absl::Span<const int32_t> NgramEnds::Find() const {
  if (size() < num_known_) return {};
  const auto ends = ends_.find(ContextBefore(size()));
  return ends == ends_.end() ? absl::Span<const int32_t>() : ends->second;
}

absl::Span<const int32_t> RepeatedRuns::Earlier(absl::Span<const int32_t> tokens) const {
  const auto found = occurrences_.find(tokens.back());
  if (found == occurrences_.end()) return {};
  absl::Span<const int32_t> all = found->second;
  const auto last = static_cast<int32_t>(tokens.size()) - 1;
  if (!all.empty() && all.back() == last) all.remove_suffix(1);
  return all.subspan(all.size() - std::min<size_t>(all.size(), kMaxOccurrences));
}

RepeatedRuns::Level RepeatedRuns::Next(const Level& level, absl::Span<const int32_t> tokens) const {
  Level next;
  next.num_unbroken = breakers_.contains(tokens.back()) ? 0 : level.num_unbroken + 1;
  const absl::Span<const int32_t> earlier = Earlier(tokens);
  next.matches.reserve(earlier.size());
  auto match = level.matches.begin();
  // Older occurrences of the token before are not in a full level.
  const bool is_full = level.matches.size() == kMaxOccurrences;
  const int32_t first_known = level.matches.empty() ? 0 : level.matches.front().end;
  const auto last = static_cast<int32_t>(tokens.size()) - 1;
  std::vector<int32_t> common;  // where it is needed: one pass over the sequence
  for (const int32_t index : earlier) {
    while (match != level.matches.end() && match->end < index) ++match;
    int32_t length = 1;
    if (match != level.matches.end() && match->end == index) {
      length += match->length;
    } else if (is_full && index < first_known) {
      if (common.empty()) common = CommonSuffixes(tokens);
      length = common[last - index];
    }
    next.matches.push_back({.end = index + 1, .length = length});
  }
  return next;
}

void RepeatedRuns::OnAppend(absl::Span<const int32_t> tokens) {
  if (levels_.empty()) return;  // Find() makes up for it
  occurrences_[tokens.back()].push_back(num_indexed_++);
  levels_.push_back(Next(levels_.back(), tokens));
  if (levels_.size() > kMaxLevels) levels_.pop_front();
}

void RepeatedRuns::OnTruncate(absl::Span<const int32_t> tokens, int32_t size) {
  const auto num_cut = static_cast<size_t>(num_indexed_ - size);
  if (num_cut >= levels_.size()) {
    levels_.clear();
    return;
  }
  levels_.erase(levels_.end() - static_cast<ptrdiff_t>(num_cut), levels_.end());
  while (num_indexed_ > size) occurrences_[tokens[--num_indexed_]].pop_back();
}

void RepeatedRuns::Rebuild(absl::Span<const int32_t> tokens) {
  occurrences_.clear();
  num_indexed_ = 0;
  for (const int32_t token : tokens) occurrences_[token].push_back(num_indexed_++);
  Level level;
  while (level.num_unbroken < num_indexed_ &&
         !breakers_.contains(tokens[num_indexed_ - 1 - level.num_unbroken])) {
    ++level.num_unbroken;
  }
  if (!tokens.empty()) {
    const std::vector<int32_t> common = CommonSuffixes(tokens);
    for (const int32_t index : Earlier(tokens)) {
      level.matches.push_back({.end = index + 1, .length = common[num_indexed_ - 1 - index]});
    }
  }
  levels_.push_back(std::move(level));
}

absl::flat_hash_map<int32_t, int32_t> RepeatedRuns::Find(absl::Span<const int32_t> tokens,
                                                         int32_t range) {
  if (levels_.empty()) Rebuild(tokens);
  const Level& level = levels_.back();
  const auto size = static_cast<int32_t>(tokens.size());
  const int32_t begin = range > 0 && range < size ? size - range : 0;
  absl::flat_hash_map<int32_t, int32_t> runs;
  for (const Match& match : level.matches) {
    const int32_t length = std::min({match.length, level.num_unbroken, match.end - begin});
    const int32_t next = tokens[match.end];
    if (length <= 0 || breakers_.contains(next)) continue;
    int32_t& run = runs[next];
    run = std::max(run, length);
  }
  return runs;
}

}  // namespace sluice
