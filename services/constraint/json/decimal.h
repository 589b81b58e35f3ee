// Decimal numbers of any length, as JSON spells them. A value type; thread-safe as such.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

// The value is (negative ? -1 : 1) * 0.d1d2d3... * 10^point. No zeros lead or trail; zero has no
// digits, no sign and point 0.
struct Decimal {
  bool negative = false;
  std::string digits;
  int64_t point = 0;

  // REQUIRES: `text` is a number by JSON's grammar. Exponents beyond +-10^9 are taken for these.
  static Decimal Parse(std::string_view text);

  bool is_zero() const { return digits.empty(); }
  bool is_integer() const { return static_cast<int64_t>(digits.size()) <= point || is_zero(); }
  // Negative, 0 or positive as this is less than, equal to or greater than `other`.
  int Compare(const Decimal& other) const;
  // Of the magnitudes.
  int CompareMagnitude(const Decimal& other) const;
};

}  // namespace sluice
