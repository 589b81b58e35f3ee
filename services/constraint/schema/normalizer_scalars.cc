// Keywords of numbers and strings.
#include <algorithm>

#include "services/constraint/json/message.h"
#include "services/constraint/regex/pattern.h"
#include "services/constraint/schema/formats.h"
#include "services/constraint/schema/normalizer.h"

namespace sluice {
namespace {

// value as numerator / 10^scale; false where it is not positive or too long.
bool AsMultiple(const Decimal& value, NumberRules::Multiple& multiple) {
  if (value.is_zero() || value.negative || value.point > 13) return false;
  multiple.scale = static_cast<int>(
      std::max<int64_t>(static_cast<int64_t>(value.digits.size()) - value.point, 0));
  if (multiple.scale > NumberRules::kMaxScale || value.digits.size() > 13) return false;
  multiple.numerator = std::stoull(value.digits);
  for (int64_t zeros = value.point - static_cast<int64_t>(value.digits.size()); zeros > 0; --zeros)
    multiple.numerator *= 10;
  return multiple.numerator <= NumberRules::kMaxNumerator;
}

}  // namespace

SchemaNormalizer::Outcome SchemaNormalizer::NumberKeyword(const JsonValue& schema,
                                                          const JsonValue::Member& keyword,
                                                          bool negated, Work& work) {
  const auto& [name, value] = keyword;
  const bool is_exclusive = name == "exclusiveMinimum" || name == "exclusiveMaximum";
  // Draft 4: a flag beside minimum or maximum, read with these.
  if (is_exclusive && value.is_bool()) return negated ? Outcome::kNone : Outcome::kGoOn;
  if (!value.is_number()) return Malformed(schema, keyword, "a number");
  const Decimal bound = Decimal::Parse(value.text);
  if (name == "multipleOf") {
    NumberRules::Multiple multiple{.negated = negated};
    if (bound.is_zero() || bound.negative) return Malformed(schema, keyword, "a number above 0");
    if (!AsMultiple(bound, multiple)) return Refuse(schema, name, "too many digits");
    work.shape.number.multiples.push_back(multiple);
    return Outcome::kGoOn;
  }
  const bool is_min = name == "minimum" || name == "exclusiveMinimum";
  const JsonValue* flag = schema.Find(is_min ? "exclusiveMinimum" : "exclusiveMaximum");
  const bool strict = is_exclusive || (flag != nullptr && flag->type == JsonValue::Type::kTrue);
  NumberRules::Bound rule{.bound = bound};
  rule.equal = strict == negated;
  (is_min != negated ? rule.greater : rule.less) = true;
  work.shape.number.bounds.push_back(rule);
  return Outcome::kGoOn;
}

ExprId SchemaNormalizer::PatternOf(const JsonValue& schema, std::string_view keyword,
                                   std::string_view pattern) {
  if (const auto it = patterns_.find(pattern); it != patterns_.end()) return it->second;
  const auto expr = CompilePattern(pattern, PatternMatch::kSearch, space_);
  if (!expr.ok()) {
    Fail(absl::Status(expr.status().code(), Message(index_.PathOf(schema), "/", keyword, ": ",
                                                    std::string(expr.status().message()))));
    return space_.Nothing();
  }
  return patterns_[pattern] = *expr;
}

SchemaNormalizer::Outcome SchemaNormalizer::StringKeyword(const JsonValue& schema,
                                                          const JsonValue::Member& keyword,
                                                          bool negated, Work& work) {
  const auto& [name, value] = keyword;
  ExprId text = space_.AnyText();
  if (name == "minLength" || name == "maxLength") {
    uint32_t min = 0, max = ExprSpace::kUnbounded;
    if (Count(schema, keyword, name == "minLength", negated, min, max) == Outcome::kNone)
      return Outcome::kNone;
    work.shape.texts.push_back(space_.AnyTextOfLength(min, max));
    return Outcome::kGoOn;
  }
  if (!value.is_string()) return Malformed(schema, keyword, "a text");
  if (name == "pattern") {
    text = PatternOf(schema, name, value.text);
  } else {
    // Formats that nobody has defined annotate, as all do where the dialect says so.
    const JsonValue* type = schema.Find("type");
    if (!index_.asserts_format() && (type == nullptr || type->text != "string"))
      return negated ? Outcome::kNone : Outcome::kGoOn;
    const auto format = FormatLanguage(value.text, space_);
    if (absl::IsNotFound(format.status())) return negated ? Outcome::kNone : Outcome::kGoOn;
    if (!format.ok()) return Refuse(schema, name, value.text);
    text = *format;
  }
  if (!status_.ok()) return Outcome::kNone;
  work.shape.texts.push_back(negated ? space_.Not(text) : text);
  return Outcome::kGoOn;
}

std::optional<uint32_t> SchemaNormalizer::CountOf(const JsonValue& schema,
                                                  const JsonValue::Member& keyword) {
  const Decimal value =
      keyword.value.is_number() ? Decimal::Parse(keyword.value.text) : Decimal{.negative = true};
  if (value.negative || !value.is_integer()) {
    Malformed(schema, keyword, "a whole number from 0 on");
    return std::nullopt;
  }
  uint64_t count = 0;
  for (int64_t i = 0; i < value.point; ++i)
    count = std::min<uint64_t>(
        count * 10 + (i < static_cast<int64_t>(value.digits.size())
                          ? static_cast<uint64_t>(value.digits[static_cast<size_t>(i)] - '0')
                          : 0),
        UINT32_MAX - 2);
  return static_cast<uint32_t>(count);
}

SchemaNormalizer::Outcome SchemaNormalizer::Count(const JsonValue& schema,
                                                  const JsonValue::Member& keyword, bool is_min,
                                                  bool negated, uint32_t& min, uint32_t& max) {
  const std::optional<uint32_t> count = CountOf(schema, keyword);
  if (!count.has_value()) return Outcome::kNone;
  if (is_min != negated) {
    min = std::max(min, *count + (negated ? 1 : 0));
  } else if (negated && *count == 0) {
    return Outcome::kNone;
  } else {
    max = std::min(max, *count - (negated ? 1 : 0));
  }
  return min <= max ? Outcome::kGoOn : Outcome::kNone;
}

}  // namespace sluice
