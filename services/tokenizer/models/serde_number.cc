#include "services/tokenizer/models/serde_number.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>

namespace sluice {
namespace {

constexpr int kLargestPower = 308;

double PowerOfTen(int exponent) {
  const std::string text = "1e" + std::to_string(exponent);
  double power = 0;
  std::from_chars(text.data(), text.data() + text.size(), power);
  return power;
}

}  // namespace

double AsSerdeReads(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  char text[32];
  const char* const end =
      std::to_chars(text, text + sizeof(text), std::abs(value), std::chars_format::scientific).ptr;
  // d.ddde+xx
  uint64_t digits = 0;
  int exponent = 0;
  const char* at = text;
  for (bool behind_point = false; at != end && *at != 'e'; ++at) {
    if (*at == '.') {
      behind_point = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    if (behind_point) --exponent;
  }
  int power = 0;
  if (at != end) {
    if (*++at == '+') ++at;
    std::from_chars(at, end, power);
  }
  exponent += power;
  auto result = static_cast<double>(digits);
  for (; exponent < -kLargestPower; exponent += kLargestPower) {
    result /= PowerOfTen(kLargestPower);
  }
  result = exponent < 0 ? result / PowerOfTen(-exponent) : result * PowerOfTen(exponent);
  return std::copysign(result, value);
}

}  // namespace sluice
