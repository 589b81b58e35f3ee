#include "services/constraint/json/decimal.h"

#include <algorithm>

namespace sluice {

Decimal Decimal::Parse(std::string_view text) {
  Decimal value;
  size_t at = 0;
  if (at < text.size() && text[at] == '-') {
    value.negative = true;
    ++at;
  }
  bool fraction = false;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      fraction = true;
      continue;
    }
    value.digits += text[at];
    if (!fraction) ++value.point;
  }
  if (at < text.size()) {
    ++at;
    const bool down = at < text.size() && text[at] == '-';
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    int64_t exponent = 0;
    for (; at < text.size(); ++at)
      exponent = std::min<int64_t>(exponent * 10 + (text[at] - '0'), 1'000'000'000);
    value.point += down ? -exponent : exponent;
  }
  const size_t first = value.digits.find_first_not_of('0');
  if (first == std::string::npos) return Decimal{};
  value.digits.erase(0, first);
  value.point -= static_cast<int64_t>(first);
  value.digits.erase(value.digits.find_last_not_of('0') + 1);
  return value;
}

int Decimal::CompareMagnitude(const Decimal& other) const {
  if (is_zero() || other.is_zero()) return static_cast<int>(other.is_zero()) - is_zero();
  if (point != other.point) return point < other.point ? -1 : 1;
  return digits.compare(other.digits);
}

int Decimal::Compare(const Decimal& other) const {
  if (negative != other.negative) return negative ? -1 : 1;
  return negative ? -CompareMagnitude(other) : CompareMagnitude(other);
}

}  // namespace sluice
