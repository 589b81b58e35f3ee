#include "services/gateway/tool_calls/python_literals.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "services/gateway/json/json_text.h"

namespace sluice::gateway {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

bool IsDigitOf(char c, int base) {
  const int value = absl::ascii_isdigit(static_cast<unsigned char>(c)) ? c - '0'
                    : absl::ascii_isalpha(static_cast<unsigned char>(c))
                        ? absl::ascii_tolower(static_cast<unsigned char>(c)) - 'a' + 10
                        : 99;
  return value < base;
}

int ValueOf(char c) {
  return absl::ascii_isdigit(static_cast<unsigned char>(c))
             ? c - '0'
             : absl::ascii_tolower(static_cast<unsigned char>(c)) - 'a' + 10;
}

void AppendUtf8(char32_t c, std::string* out) {
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) c = kReplacement;
  if (c < 0x80) {
    *out += static_cast<char>(c);
  } else if (c < 0x800) {
    *out += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
  } else if (c < 0x10000) {
    *out += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
             static_cast<char>(0x80 | (c & 0x3F))};
  } else {
    *out += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3F)),
             static_cast<char>(0x80 | (c >> 6 & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
  }
}

// `count` digits at the front of the text, which loses them.
std::optional<char32_t> TakeDigits(absl::string_view& text, size_t least, size_t most, int base) {
  size_t count = 0;
  char32_t value = 0;
  for (; count < most && count < text.size() && IsDigitOf(text[count], base); ++count) {
    value = value * static_cast<char32_t>(base) + static_cast<char32_t>(ValueOf(text[count]));
  }
  if (count < least) return std::nullopt;
  text.remove_prefix(count);
  return value;
}

// The character of \x, \u or \U behind the backslash; the text loses it.
std::optional<char32_t> TakeCodePoint(absl::string_view& text) {
  const size_t count = text[0] == 'x' ? 2 : text[0] == 'u' ? 4 : text[0] == 'U' ? 8 : 0;
  if (count == 0) return std::nullopt;
  absl::string_view digits = text.substr(1);
  const std::optional<char32_t> value = TakeDigits(digits, count, count, 16);
  if (value.has_value()) text = digits;
  return value;
}

constexpr std::pair<char, char> kEscapes[] = {{'\\', '\\'}, {'\'', '\''}, {'"', '"'},  {'a', '\a'},
                                              {'b', '\b'},  {'f', '\f'},  {'n', '\n'}, {'r', '\r'},
                                              {'t', '\t'},  {'v', '\v'}};

// What stands behind a backslash; the text loses it.
void TakeEscape(absl::string_view& text, std::string* out) {
  if (absl::ConsumePrefix(&text, "\n") || absl::ConsumePrefix(&text, "\r\n")) return;
  for (const auto& [letter, character] : kEscapes) {
    if (text[0] != letter) continue;
    *out += character;
    return text.remove_prefix(1);
  }
  if (const auto octal = TakeDigits(text, 1, 3, 8)) return AppendUtf8(*octal, out);
  std::optional<char32_t> c = TakeCodePoint(text);
  if (!c.has_value()) {
    *out += '\\';
    return;
  }
  // Python has no pairs; models that have learnt JSON write them.
  if (*c >= 0xD800 && *c < 0xDC00 && absl::StartsWith(text, "\\u")) {
    absl::string_view behind = text.substr(1);
    const std::optional<char32_t> low = TakeCodePoint(behind);
    if (low.has_value() && *low >= 0xDC00 && *low < 0xE000) {
      text = behind;
      c = 0x10000 + ((*c - 0xD800) << 10) + (*low - 0xDC00);
    }
  }
  AppendUtf8(*c, out);
}

// Digits of another base as decimal ones; nothing beyond 256 bits.
std::optional<std::string> Decimal(absl::string_view digits, int base) {
  constexpr size_t kMostDigits = 78;  // of 2^256
  std::vector<int> decimal = {0};     // the lowest first
  for (const char c : digits) {
    int carry = ValueOf(c);
    for (int& digit : decimal) {
      carry += digit * base;
      digit = carry % 10;
      carry /= 10;
    }
    for (; carry > 0; carry /= 10) decimal.push_back(carry % 10);
    if (decimal.size() > kMostDigits) return std::nullopt;
  }
  std::string text;
  for (auto digit = decimal.rbegin(); digit != decimal.rend(); ++digit) {
    text += static_cast<char>('0' + *digit);
  }
  return text;
}

// Without the underscores between digits; nothing where they stand elsewhere.
std::optional<std::string> WithoutUnderscores(absl::string_view number, int base) {
  std::string digits;
  for (size_t i = 0; i < number.size(); ++i) {
    if (number[i] != '_') {
      digits += number[i];
    } else if (i == 0 || i + 1 == number.size() || !IsDigitOf(number[i - 1], base) ||
               !IsDigitOf(number[i + 1], base)) {
      return std::nullopt;
    }
  }
  return digits;
}

bool AreDigits(absl::string_view text, int base = 10) {
  return std::all_of(text.begin(), text.end(), [base](char c) { return IsDigitOf(c, base); });
}

std::optional<std::string> PrefixedInteger(absl::string_view number) {
  const char letter = absl::ascii_tolower(static_cast<unsigned char>(number[1]));
  const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
  absl::string_view behind = number.substr(2);
  absl::ConsumePrefix(&behind, "_");
  const std::optional<std::string> digits = WithoutUnderscores(behind, base);
  if (!digits.has_value() || digits->empty() || !AreDigits(*digits, base)) return std::nullopt;
  return Decimal(*digits, base);
}

}  // namespace

std::optional<std::string> JsonNumberOfPython(absl::string_view number) {
  std::string sign;
  if (absl::ConsumePrefix(&number, "-")) {
    sign = "-";
  } else {
    absl::ConsumePrefix(&number, "+");
  }
  if (number.size() > 2 && number[0] == '0' && absl::StrContains("xXoObB", number.substr(1, 1))) {
    const std::optional<std::string> integer = PrefixedInteger(number);
    return integer.has_value() ? std::optional(sign + *integer) : std::nullopt;
  }
  const std::optional<std::string> plain = WithoutUnderscores(number, 10);
  if (!plain.has_value()) return std::nullopt;
  absl::string_view rest = *plain;
  const size_t e = std::min(rest.find_first_of("eE"), rest.size());
  absl::string_view exponent = rest.substr(e);
  rest = rest.substr(0, e);
  const size_t point = rest.find('.');
  absl::string_view whole = rest.substr(0, point);
  const absl::string_view fraction = point == absl::string_view::npos ? "" : rest.substr(point + 1);
  if (whole.empty() && fraction.empty()) return std::nullopt;
  if (!AreDigits(whole) || !AreDigits(fraction)) return std::nullopt;
  // A float may begin with zeros, an integer may not, but for zero.
  const bool is_integer = point == absl::string_view::npos && exponent.empty();
  const absl::string_view trimmed =
      whole.substr(std::min(whole.find_first_not_of('0'), whole.size()));
  if (is_integer && trimmed.size() != whole.size() && !trimmed.empty()) return std::nullopt;
  std::string made = absl::StrCat(sign, trimmed.empty() ? "0" : trimmed);
  if (point != absl::string_view::npos) {
    absl::StrAppend(&made, ".", fraction.empty() ? "0" : fraction);
  }
  if (exponent.empty()) return made;
  absl::string_view digits = exponent.substr(1);
  if (!absl::ConsumePrefix(&digits, "+")) absl::ConsumePrefix(&digits, "-");
  if (digits.empty() || !AreDigits(digits)) return std::nullopt;
  return absl::StrCat(made, exponent);
}

std::string PythonUnescaped(absl::string_view inside) {
  std::string out;
  while (!inside.empty()) {
    const char c = inside.front();
    inside.remove_prefix(1);
    if (c != '\\' || inside.empty()) {
      out += c;
    } else {
      TakeEscape(inside, &out);
    }
  }
  return out;
}

void PythonReader::SkipSpace() {
  rest_ = absl::StripLeadingAsciiWhitespace(rest_);
  while (absl::StartsWith(rest_, "#")) {
    rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
  }
}

bool PythonReader::IsNext(char c) {
  SkipSpace();
  return !rest_.empty() && rest_.front() == c;
}

bool PythonReader::Take(char c) {
  if (!IsNext(c)) return false;
  rest_.remove_prefix(1);
  return true;
}

std::string PythonReader::TakeName() {
  SkipSpace();
  const auto end = std::find_if(rest_.begin(), rest_.end(), [](char c) {
    return !absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '-';
  });
  std::string name(rest_.begin(), end);
  rest_.remove_prefix(name.size());
  return name;
}

std::optional<std::string> PythonReader::TakeValue(int depth) {
  SkipSpace();
  if (rest_.empty() || depth > kMaxJsonDepth) return std::nullopt;
  if (IsString()) {
    const std::optional<std::string> text = TakeStrings();
    return text.has_value() ? std::optional(ToJson(*text)) : std::nullopt;
  }
  switch (rest_.front()) {
    case '[':
      return TakeList(depth);
    case '(':
      return TakeParenthesis(depth);
    case '{':
      return TakeDictionary(depth);
    default:
      return TakeScalar();
  }
}

std::optional<std::string> PythonReader::TakeList(int depth) {
  Take('[');
  std::vector<std::string> items;
  while (!Take(']')) {
    std::optional<std::string> item = TakeValue(depth + 1);
    if (!item.has_value()) return std::nullopt;
    items.push_back(*std::move(item));
    if (!Take(',') && !IsNext(']')) return std::nullopt;
  }
  return absl::StrCat("[", absl::StrJoin(items, ","), "]");
}

// A tuple, or a value in brackets of its own.
std::optional<std::string> PythonReader::TakeParenthesis(int depth) {
  Take('(');
  std::vector<std::string> items;
  bool is_tuple = IsNext(')');
  while (!Take(')')) {
    std::optional<std::string> item = TakeValue(depth + 1);
    if (!item.has_value()) return std::nullopt;
    items.push_back(*std::move(item));
    if (Take(',')) {
      is_tuple = true;
    } else if (!IsNext(')')) {
      return std::nullopt;
    }
  }
  if (!is_tuple) return items.front();
  return absl::StrCat("[", absl::StrJoin(items, ","), "]");
}

std::optional<std::string> PythonReader::TakeDictionary(int depth) {
  Take('{');
  std::vector<std::pair<std::string, std::string>> members;
  while (!Take('}')) {
    std::optional<std::string> key = TakeKey();
    if (!key.has_value() || !Take(':')) return std::nullopt;
    std::optional<std::string> value = TakeValue(depth + 1);
    if (!value.has_value()) return std::nullopt;
    members.emplace_back(*std::move(key), *std::move(value));
    if (!Take(',') && !IsNext('}')) return std::nullopt;
  }
  return absl::StrCat("{", absl::StrJoin(members, ",", absl::PairFormatter(":")), "}");
}

std::optional<std::string> PythonReader::TakeKey() {
  if (IsString()) {
    const std::optional<std::string> text = TakeStrings();
    return text.has_value() ? std::optional(ToJson(*text)) : std::nullopt;
  }
  // As json.dumps writes them.
  const std::optional<std::string> scalar = TakeScalar();
  return scalar.has_value() ? std::optional(ToJson(*scalar)) : std::nullopt;
}

bool PythonReader::IsString() {
  SkipSpace();
  absl::string_view text = rest_;
  if (!text.empty() && absl::StrContains("rRuU", text.substr(0, 1))) text.remove_prefix(1);
  return absl::StartsWith(text, "\"") || absl::StartsWith(text, "'");
}

std::optional<std::string> PythonReader::TakeStrings() {
  std::string joined;
  do {
    const std::optional<std::string> text = TakeString();
    if (!text.has_value()) return std::nullopt;
    joined += *text;
  } while (IsString());
  return joined;
}

std::optional<std::string> PythonReader::TakeString() {
  const bool is_raw = absl::StartsWithIgnoreCase(rest_, "r");
  if (absl::ascii_isalpha(static_cast<unsigned char>(rest_.front()))) rest_.remove_prefix(1);
  const absl::string_view mark = rest_.substr(0, 1);
  const std::string three = absl::StrCat(mark, mark, mark);
  const std::string quotes = absl::StartsWith(rest_, three) ? three : std::string(mark);
  rest_.remove_prefix(quotes.size());
  size_t end = 0;
  // A backslash keeps a quote from ending the string, in raw strings too.
  while (end < rest_.size() && !absl::StartsWith(rest_.substr(end), quotes)) {
    end += rest_[end] == '\\' ? 2 : 1;
  }
  if (end >= rest_.size()) return std::nullopt;
  const absl::string_view inside = rest_.substr(0, end);
  rest_.remove_prefix(end + quotes.size());
  return is_raw ? std::string(inside) : PythonUnescaped(inside);
}

std::optional<std::string> PythonReader::TakeScalar() {
  SkipSpace();
  const auto is_part = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '+' ||
           c == '-';
  };
  const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_part);
  const std::string word(rest_.begin(), end);
  rest_.remove_prefix(word.size());
  if (word == "True" || word == "true") return "true";
  if (word == "False" || word == "false") return "false";
  if (word == "None" || word == "null") return "null";
  return JsonNumberOfPython(word);
}

}  // namespace sluice::gateway
