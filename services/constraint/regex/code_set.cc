#include "services/constraint/regex/code_set.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr CodeRange kSurrogates{0xD800, 0xDFFF};

void AppendWithoutSurrogates(CodeRange range, CodeSet& out) {
  if (range.last < kSurrogates.first || range.first > kSurrogates.last) {
    out.push_back(range);
    return;
  }
  if (range.first < kSurrogates.first) out.push_back({range.first, kSurrogates.first - 1});
  if (range.last > kSurrogates.last) out.push_back({kSurrogates.last + 1, range.last});
}

}  // namespace

CodeSet MakeCodeSet(std::vector<CodeRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  std::vector<CodeRange> joined;
  for (const CodeRange& range : ranges) {
    if (range.first > range.last) continue;
    if (!joined.empty() && range.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  CodeSet set;
  for (const CodeRange& range : joined) AppendWithoutSurrogates(range, set);
  return set;
}

CodeSet AllCodePoints() { return MakeCodeSet({{0, kMaxCodePoint}}); }

CodeSet Union(const CodeSet& a, const CodeSet& b) {
  std::vector<CodeRange> ranges = a;
  ranges.insert(ranges.end(), b.begin(), b.end());
  return MakeCodeSet(std::move(ranges));
}

CodeSet Complement(const CodeSet& set) {
  std::vector<CodeRange> ranges;
  uint32_t next = 0;
  for (const CodeRange& range : set) {
    if (range.first > next) ranges.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) ranges.push_back({next, kMaxCodePoint});
  return MakeCodeSet(std::move(ranges));
}

bool Contains(const CodeSet& set, uint32_t code_point) {
  const auto after =
      std::upper_bound(set.begin(), set.end(), code_point,
                       [](uint32_t point, const CodeRange& range) { return point < range.first; });
  return after != set.begin() && std::prev(after)->last >= code_point;
}

}  // namespace sluice
