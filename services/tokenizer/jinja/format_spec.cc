#include "services/tokenizer/jinja/format_spec.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/python_text.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

constexpr Int kMaxPrecision = 300;

bool IsAlign(char32_t c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

// Reads digits; nullopt where there are none. Large numbers stay large.
std::optional<Int> ReadNumber(std::string_view text, size_t* at) {
  const size_t begin = *at;
  Int number = 0;
  for (; *at < text.size() && text[*at] >= '0' && text[*at] <= '9'; ++*at) {
    if (number < Int{1} << 60) number = number * 10 + (text[*at] - '0');
  }
  return *at == begin ? std::nullopt : std::optional(number);
}

void ReadAlign(std::string_view text, size_t* at, FormatSpec* spec) {
  if (text.empty()) return;
  const Char first = ReadChar(text, 0);
  const size_t behind = first.length;
  if (behind < text.size() && IsAlign(static_cast<unsigned char>(text[behind]))) {
    spec->fill = first.code_point;
    spec->align = text[behind];
    *at = behind + 1;
  } else if (IsAlign(first.code_point)) {
    spec->align = text[0];
    *at = 1;
  }
}

struct Number {
  std::string sign;
  std::string prefix;  // "0x"
  std::string digits;  // before the point
  std::string rest;    // point, fraction, exponent
};

std::string DigitsOf(Int magnitude, int base, bool is_upper) {
  if (magnitude == 0) return "0";
  auto rest = static_cast<unsigned __int128>(magnitude);
  if (magnitude < 0) rest = -rest;
  std::string digits;
  for (; rest > 0; rest /= base) {
    digits.push_back(
        (is_upper ? "0123456789ABCDEF" : "0123456789abcdef")[static_cast<int>(rest % base)]);
  }
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string SignOf(bool is_negative, char sign) {
  if (is_negative) return "-";
  return sign == '-' ? "" : std::string(1, sign);
}

Number IntNumber(Int value, const FormatSpec& spec) {
  const char type = spec.type == 0 ? 'd' : spec.type;
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  Number number{SignOf(value < 0, spec.sign), "", DigitsOf(value, base, type == 'X'), ""};
  if (spec.is_alternate && base != 10) number.prefix = {'0', type};
  return number;
}

void SplitDigits(std::string text, Number* number) {
  const size_t end =
      std::find_if(text.begin(), text.end(), [](unsigned char c) { return !std::isdigit(c); }) -
      text.begin();
  number->digits = text.substr(0, end);
  number->rest = text.substr(end);
}

std::string PrintDouble(double value, char type, int precision, bool is_alternate) {
  const std::string format = std::string(is_alternate ? "%#.*" : "%.*") + type;
  char buffer[800];
  std::snprintf(buffer, sizeof(buffer), format.c_str(), precision, value);
  return buffer;
}

// Without a type: as repr, or with a precision as "g" that keeps a digit behind the point.
std::string GeneralDouble(double value, const FormatSpec& spec, int precision) {
  if (!spec.precision.has_value()) return ReprFloat(value);
  std::string text = PrintDouble(value, 'g', std::max(precision, 1), false);
  const bool is_plain = text.find_first_of(".e") == std::string::npos;
  return is_plain ? text + ".0" : text;
}

Number FloatNumber(double value, const FormatSpec& spec) {
  Number number{SignOf(std::signbit(value) && !std::isnan(value), spec.sign), "", "", ""};
  const double magnitude = std::fabs(value);
  const bool is_upper = spec.type == 'F' || spec.type == 'E' || spec.type == 'G';
  if (!std::isfinite(value)) {
    number.digits = std::isnan(value) ? (is_upper ? "NAN" : "nan") : (is_upper ? "INF" : "inf");
    if (spec.type == '%') number.rest = "%";
    return number;
  }
  const int precision = static_cast<int>(std::min(spec.precision.value_or(6), kMaxPrecision));
  if (spec.type == 0) {
    SplitDigits(GeneralDouble(magnitude, spec, precision), &number);
  } else if (spec.type == '%') {
    SplitDigits(PrintDouble(magnitude * 100, 'f', precision, spec.is_alternate) + "%", &number);
  } else {
    SplitDigits(PrintDouble(magnitude, spec.type, precision, spec.is_alternate), &number);
  }
  return number;
}

std::string Grouped(const std::string& digits, char separator, size_t group) {
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % group == 0) grouped.push_back(separator);
    grouped.push_back(digits[i]);
  }
  return grouped;
}

Text Filled(Run& run, const FormatSpec& spec, size_t length) {
  Text filled;
  const Int missing = spec.width - static_cast<Int>(length);
  if (missing <= 0) return filled;
  std::string fill;
  AppendChar(spec.fill, &fill);
  if (missing > Int{1} << 40 || !run.CheckMemory(static_cast<size_t>(missing) * fill.size())) {
    run.Fail(Error::Kind::kLimit, "a format's width is too large");
    return filled;
  }
  std::string all;
  for (Int i = 0; i < missing; ++i) all += fill;
  run.StepBytes(all.size());
  return Text(std::move(all));
}

// `front` stays before what fills where the alignment is "=".
Text Aligned(Run& run, const FormatSpec& spec, char align, const std::string& front,
             const Text& body) {
  Text out;
  const Text fill = Filled(run, spec, CountChars(front) + CountChars(body.bytes()));
  const size_t half = align == '^' ? ByteOfChar(fill.bytes(), CountChars(fill.bytes()) / 2) : 0;
  if (align == '>') out.Append(fill);
  if (align == '^') out.AppendPart(fill, 0, half);
  out.Append(front);
  if (align == '=') out.Append(fill);
  out.Append(body);
  if (align == '<') out.Append(fill);
  if (align == '^') out.AppendPart(fill, half, fill.size());
  return out;
}

Text FormatNumber(Run& run, const Value& value, const FormatSpec& spec) {
  const bool is_float = value.Is(Value::Kind::kFloat) ||
                        std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  Number number = is_float && (spec.type != 0 || value.Is(Value::Kind::kFloat))
                      ? FloatNumber(value.AsDouble(), spec)
                      : IntNumber(value.int_value(), spec);
  if (spec.grouping != 0) {
    number.digits = Grouped(number.digits, spec.grouping, number.prefix.empty() ? 3 : 4);
  }
  const Text body(number.digits + number.rest, value.IsUntrustedNumber());
  return Aligned(run, spec, spec.align == 0 ? '>' : spec.align, number.sign + number.prefix, body);
}

bool AcceptsType(const Value& value, char type) {
  if (type == 0) return true;
  if (value.Is(Value::Kind::kFloat))
    return std::string_view("eEfFgG%n").find(type) != std::string_view::npos;
  if (value.IsInt()) return std::string_view("bcdeEfFgGnoxX%").find(type) != std::string_view::npos;
  return type == 's';
}

}  // namespace

std::optional<FormatSpec> ParseFormatSpec(Run& run, std::string_view text) {
  FormatSpec spec;
  size_t at = 0;
  const auto next_is = [&](std::string_view choices) {
    return at < text.size() && choices.find(text[at]) != std::string_view::npos;
  };
  ReadAlign(text, &at, &spec);
  if (next_is("+- ")) spec.sign = text[at++];
  if (next_is("#")) spec.is_alternate = ++at > 0;
  if (next_is("0")) {
    ++at;
    if (spec.align == 0) {
      spec.fill = '0';
      spec.align = '=';
    }
  }
  spec.width = ReadNumber(text, &at).value_or(0);
  if (next_is(",_")) spec.grouping = text[at++];
  if (next_is(".")) {
    ++at;
    spec.precision = ReadNumber(text, &at);
    if (!spec.precision.has_value()) {
      run.ValueError("Format specifier missing precision");
      return std::nullopt;
    }
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) {
    run.ValueError("Invalid format specifier");
    return std::nullopt;
  }
  return spec;
}

Text FormatText(Run& run, const Text& text, const FormatSpec& spec) {
  const char align = spec.align == 0 || spec.align == '=' ? '<' : spec.align;
  if (!spec.precision.has_value()) return Aligned(run, spec, align, "", text);
  const Int precision = std::min<Int>(*spec.precision, static_cast<Int>(text.size()));
  const size_t end = ByteOfChar(text.bytes(), static_cast<size_t>(precision));
  return Aligned(run, spec, align, "", text.Part(0, end));
}

Text FormatValue(Run& run, const Value& value, const FormatSpec& spec) {
  if (!AcceptsType(value, spec.type)) {
    run.ValueError(absl::StrCat("Unknown format code '", std::string(1, spec.type),
                                "' for object of type '", TypeName(value), "'"));
    return Text();
  }
  if (value.Is(Value::Kind::kBool) && spec.type == 0) {
    return FormatText(run, Str(run, value), spec);
  }
  if (value.IsNumber()) {
    if (spec.type == 'c') {
      std::string c;
      AppendChar(static_cast<char32_t>(value.int_value()), &c);
      return FormatText(run, Text(c, value.IsUntrustedNumber()), spec);
    }
    FormatSpec number = spec;
    if (spec.type == 'n') number.type = value.IsInt() ? 'd' : 'g';
    return FormatNumber(run, value, number);
  }
  return FormatText(run, Str(run, value), spec);
}

}  // namespace sluice::jinja
