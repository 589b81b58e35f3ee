// Sets of Unicode characters as sorted ranges. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

struct CodeRange {
  uint32_t first = 0;
  uint32_t last = 0;  // inclusive
  bool operator==(const CodeRange&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const CodeRange& range) {
    return H::combine(std::move(h), range.first, range.last);
  }
};

// Sorted, disjoint, not touching, without surrogates (D800-DFFF, which are no characters).
using CodeSet = std::vector<CodeRange>;

// Of ranges in any order.
CodeSet MakeCodeSet(std::vector<CodeRange> ranges);
CodeSet AllCodePoints();
CodeSet Union(const CodeSet& a, const CodeSet& b);
CodeSet Complement(const CodeSet& set);
bool Contains(const CodeSet& set, uint32_t code_point);

}  // namespace sluice
