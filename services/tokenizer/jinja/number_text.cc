#include "services/tokenizer/jinja/number_text.h"

#include <cctype>
#include <cstdlib>
#include <limits>
#include <string>

#include "services/tokenizer/jinja/text_operations.h"

namespace sluice::jinja {
namespace {

std::string Trimmed(std::string_view text) {
  return Stripped(Text(std::string(text)), std::nullopt, Side::kBoth).bytes();
}

int DigitOf(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (std::isdigit(byte)) return c - '0';
  return std::isalpha(byte) ? std::tolower(byte) - 'a' + 10 : 99;
}

// The base that a prefix at `at` says; skips it where it fits `base`.
int TakePrefix(const std::string& text, size_t* at, int base) {
  if (text.size() < *at + 2 || text[*at] != '0') return base == 0 ? 10 : base;
  const auto letter = static_cast<char>(std::tolower(static_cast<unsigned char>(text[*at + 1])));
  const int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefix == 0 || (base != 0 && base != prefix)) return base == 0 ? 10 : base;
  *at += 2;
  if (*at < text.size() && text[*at] == '_') ++*at;
  return prefix;
}

// Without the underscores between digits; nullopt where they stand elsewhere.
std::optional<std::string> WithoutUnderscores(const std::string& text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits.push_back(text[i]);
    } else if (i == 0 || i + 1 == text.size() || DigitOf(text[i - 1]) == 99 ||
               DigitOf(text[i + 1]) == 99) {
      return std::nullopt;
    }
  }
  return digits;
}

}  // namespace

std::optional<Int> ParseInt(std::string_view raw, int base) {
  const std::string text = Trimmed(raw);
  size_t at = 0;
  const bool is_negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) ++at;
  base = TakePrefix(text, &at, base);
  const std::optional<std::string> digits = WithoutUnderscores(text.substr(at));
  if (!digits.has_value() || digits->empty()) return std::nullopt;
  Int number = 0;
  for (const char c : *digits) {
    const int digit = DigitOf(c);
    if (digit >= base || __builtin_mul_overflow(number, Int{base}, &number) ||
        __builtin_add_overflow(number, Int{digit}, &number)) {
      return std::nullopt;
    }
  }
  return is_negative ? -number : number;
}

std::optional<double> ParseFloat(std::string_view raw) {
  const std::optional<std::string> text = WithoutUnderscores(Trimmed(raw));
  if (!text.has_value() || text->empty()) return std::nullopt;
  std::string lower;
  for (const char c : *text)
    lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  const std::string magnitude = lower[0] == '-' || lower[0] == '+' ? lower.substr(1) : lower;
  const double sign = lower[0] == '-' ? -1 : 1;
  if (magnitude == "inf" || magnitude == "infinity") {
    return sign * std::numeric_limits<double>::infinity();
  }
  if (magnitude == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (magnitude.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(lower.c_str(), &end);
  return end == lower.c_str() + lower.size() ? std::optional(number) : std::nullopt;
}

}  // namespace sluice::jinja
