#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/tokenizer/jinja/arguments.h"
#include "services/tokenizer/jinja/filters.h"
#include "services/tokenizer/jinja/number_text.h"
#include "services/tokenizer/jinja/operators.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {
namespace {

Value Abs(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "abs", arguments, {}, 0);
  if (value.Is(Value::Kind::kFloat)) {
    return Value::Float(std::fabs(value.float_value()), value.IsUntrustedNumber());
  }
  if (value.IsInt()) return value.int_value() < 0 ? Negate(run, value) : Plus(run, value);
  return run.TypeError(absl::StrCat("bad operand type for abs(): '", TypeName(value), "'"));
}

// int(value, base) in Python; nullopt where that is an error.
std::optional<Value> WholeOf(const Value& value, Int base) {
  if (value.IsInt()) return Value::Integer(value.int_value(), value.IsUntrustedNumber());
  if (value.Is(Value::Kind::kFloat)) {
    if (!(std::fabs(value.float_value()) < 1e38)) return std::nullopt;
    return Value::Integer(static_cast<Int>(value.float_value()), value.IsUntrustedNumber());
  }
  if (!value.IsString()) return std::nullopt;
  const std::optional<Int> number = ParseInt(value.bytes(), static_cast<int>(base));
  if (!number.has_value()) return std::nullopt;
  return Value::Integer(*number, value.text().HasUntrusted());
}

std::optional<Value> FloatOf(const Value& value) {
  if (value.IsNumber()) return Value::Float(value.AsDouble(), value.IsUntrustedNumber());
  if (!value.IsString()) return std::nullopt;
  const std::optional<double> number = ParseFloat(value.bytes());
  if (!number.has_value()) return std::nullopt;
  return Value::Float(*number, value.text().HasUntrusted());
}

Value ToInt(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_int", arguments, {"default", "base"}, 0);
  const Int base = bound.Integer(1, 10);
  if (run.failed()) return Value();
  if (value.IsUndefined()) return run.FailUndefined(value);
  if (base != 0 && (base < 2 || base > 36)) {
    return bound.Has(0) ? bound[0] : Value::Integer(0);
  }
  if (value.IsString() && !run.StepBytes(value.text().size() * 4)) return Value();
  if (const auto whole = WholeOf(value, base); whole.has_value()) return *whole;
  if (const auto number = FloatOf(value); number.has_value()) {
    if (const auto whole = WholeOf(*number, 10); whole.has_value()) return *whole;
  }
  return bound.Has(0) ? bound[0] : Value::Integer(0);
}

Value ToFloat(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_float", arguments, {"default"}, 0);
  if (run.failed()) return Value();
  if (value.IsUndefined()) return run.FailUndefined(value);
  if (value.IsString() && !run.StepBytes(value.text().size() * 4)) return Value();
  if (const auto number = FloatOf(value); number.has_value()) return *number;
  return bound.Has(0) ? bound[0] : Value::Float(0);
}

double RoundedHalfEven(double value, int precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision >= 0) {
    char buffer[720];
    std::snprintf(buffer, sizeof(buffer), "%.*f", precision, value);
    return std::strtod(buffer, nullptr);
  }
  if (precision < -308) return std::copysign(0.0, value);
  const double unit = std::pow(10.0, -precision);
  return std::nearbyint(value / unit) * unit;
}

Value RoundedInt(const Value& value, Int precision) {
  if (precision >= 0) return Value::Integer(value.int_value(), value.IsUntrustedNumber());
  if (precision < -37) return Value::Integer(0, value.IsUntrustedNumber());
  Int unit = 1;
  for (Int i = precision; i < 0; ++i) unit *= 10;
  const Int number = value.int_value();
  Int quotient = number / unit;
  const Int rest = number % unit;
  const Int twice = (rest < 0 ? -rest : rest) * 2;
  if (twice > unit || (twice == unit && quotient % 2 != 0)) quotient += number < 0 ? -1 : 1;
  return Value::Integer(quotient * unit, value.IsUntrustedNumber());
}

Value RoundToward(Run& run, const Value& value, Int precision, bool is_up) {
  const Value ten = Value::Integer(10);
  const Value unit = Apply(run, BinaryOperator::kPower, ten, Value::Integer(precision));
  const Value scaled = Apply(run, BinaryOperator::kMultiply, value, unit);
  if (run.failed()) return Value();
  const double whole = is_up ? std::ceil(scaled.AsDouble()) : std::floor(scaled.AsDouble());
  return Apply(run, BinaryOperator::kDivide, Value::Float(whole, value.IsUntrustedNumber()), unit);
}

Value Round(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_round", arguments, {"precision", "method"}, 0);
  const Int precision = bound.Integer(0, 0);
  const std::string method = bound.String(1, "common").bytes();
  if (run.failed()) return Value();
  if (method != "common" && method != "ceil" && method != "floor") {
    return run.Fail(Error::Kind::kRuntime, "method must be common, ceil or floor");
  }
  if (value.IsUndefined()) return run.FailUndefined(value);
  if (!value.IsNumber()) {
    return run.TypeError(
        absl::StrCat("type ", TypeName(value), " doesn't define __round__ method"));
  }
  if (method != "common") return RoundToward(run, value, precision, method == "ceil");
  if (value.IsInt()) return RoundedInt(value, precision);
  const int digits = static_cast<int>(std::clamp<Int>(precision, -400, 400));
  return Value::Float(RoundedHalfEven(value.float_value(), digits), value.IsUntrustedNumber());
}

Value FileSize(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_filesizeformat", arguments, {"binary"}, 0);
  if (value.IsString() && !run.StepBytes(value.text().size() * 4)) return Value();
  const std::optional<Value> number = FloatOf(value);
  if (run.failed()) return Value();
  if (!number.has_value()) return run.ValueError("could not convert to float");
  const double bytes = number->float_value();
  const bool is_binary = bound.Flag(0, false);
  const double base = is_binary ? 1024 : 1000;
  const bool is_untrusted = number->IsUntrustedNumber();
  if (bytes == 1) return run.String(Text("1 Byte", is_untrusted));
  if (bytes < base) {
    return run.String(
        Text(absl::StrCat(IntToString(static_cast<Int>(bytes)), " Bytes"), is_untrusted));
  }
  double unit = base * base;
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  size_t prefix = 0;
  for (; prefix + 1 < kPrefixes.size() && bytes >= unit; ++prefix) unit *= base;
  const std::string name = is_binary && prefix == 0 ? "K" : std::string(1, kPrefixes[prefix]);
  return run.String(
      Text(absl::StrFormat("%.1f %s%s", base * bytes / unit, name, is_binary ? "iB" : "B"),
           is_untrusted));
}

constexpr std::array<FilterEntry, 5> kNumberFilters = {{
    {"abs", Abs},
    {"int", ToInt},
    {"float", ToFloat},
    {"round", Round},
    {"filesizeformat", FileSize},
}};

}  // namespace

Filter FindNumberFilter(std::string_view name) { return FindIn(kNumberFilters, name); }

}  // namespace sluice::jinja
