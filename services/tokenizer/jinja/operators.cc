#include "services/tokenizer/jinja/operators.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/html.h"
#include "services/tokenizer/jinja/percent_format.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {
namespace {

using Kind = Value::Kind;

const char* Symbol(BinaryOperator operation) {
  switch (operation) {
    case BinaryOperator::kAdd:
      return "+";
    case BinaryOperator::kSubtract:
      return "-";
    case BinaryOperator::kMultiply:
      return "*";
    case BinaryOperator::kDivide:
      return "/";
    case BinaryOperator::kFloorDivide:
      return "//";
    case BinaryOperator::kModulo:
      return "%";
    case BinaryOperator::kPower:
      return "** or pow()";
  }
  return "";
}

bool IsUntrusted(const Value& a, const Value& b) {
  return a.IsUntrustedNumber() || b.IsUntrustedNumber();
}

Value Overflow(Run& run) {
  return run.Fail(Error::Kind::kLimit, "an integer is too large: accepted are 127 bits");
}

Value ZeroDivision(Run& run, const char* message) {
  return run.Fail(Error::Kind::kRuntime, message);
}

Value IntPower(Run& run, const Value& a, const Value& b) {
  const bool is_untrusted = IsUntrusted(a, b);
  Int exponent = b.int_value();
  if (exponent < 0) {
    if (a.int_value() == 0) {
      return ZeroDivision(run, "0.0 cannot be raised to a negative power");
    }
    return Value::Float(std::pow(a.AsDouble(), b.AsDouble()), is_untrusted);
  }
  Int base = a.int_value();
  Int result = 1;
  bool is_too_large = false;
  for (; exponent > 0 && !is_too_large; exponent /= 2) {
    if (exponent % 2 == 1) is_too_large = __builtin_mul_overflow(result, base, &result);
    if (exponent > 1) {
      const bool square_is_too_large = __builtin_mul_overflow(base, base, &base);
      is_too_large = is_too_large || square_is_too_large;
    }
  }
  return is_too_large ? Overflow(run) : Value::Integer(result, is_untrusted);
}

Value IntDivide(Run& run, BinaryOperator operation, const Value& a, const Value& b) {
  const Int x = a.int_value();
  const Int y = b.int_value();
  const bool is_untrusted = IsUntrusted(a, b);
  const bool is_modulo = operation == BinaryOperator::kModulo;
  if (y == 0) {
    return ZeroDivision(run, operation == BinaryOperator::kDivide ? "division by zero"
                             : is_modulo                          ? "integer modulo by zero"
                                         : "integer division or modulo by zero");
  }
  if (operation == BinaryOperator::kDivide) {
    return Value::Float(
        static_cast<double>(static_cast<long double>(x) / static_cast<long double>(y)),
        is_untrusted);
  }
  if (y == -1) {
    if (is_modulo) return Value::Integer(0, is_untrusted);
    Int negated = 0;
    return __builtin_sub_overflow(Int{0}, x, &negated) ? Overflow(run)
                                                       : Value::Integer(negated, is_untrusted);
  }
  const bool rounds_up = x % y != 0 && ((x < 0) != (y < 0));
  return Value::Integer(is_modulo ? x % y + (rounds_up ? y : 0) : x / y - (rounds_up ? 1 : 0),
                        is_untrusted);
}

Value IntArithmetic(Run& run, BinaryOperator operation, const Value& a, const Value& b) {
  const Int x = a.int_value();
  const Int y = b.int_value();
  Int result = 0;
  bool is_too_large = false;
  switch (operation) {
    case BinaryOperator::kAdd:
      is_too_large = __builtin_add_overflow(x, y, &result);
      break;
    case BinaryOperator::kSubtract:
      is_too_large = __builtin_sub_overflow(x, y, &result);
      break;
    case BinaryOperator::kMultiply:
      is_too_large = __builtin_mul_overflow(x, y, &result);
      break;
    case BinaryOperator::kPower:
      return IntPower(run, a, b);
    default:
      return IntDivide(run, operation, a, b);
  }
  return is_too_large ? Overflow(run) : Value::Integer(result, IsUntrusted(a, b));
}

double FloatModulo(double x, double y) {
  const double rest = std::fmod(x, y);
  if (rest == 0) return std::copysign(0.0, y);
  return (rest < 0) != (y < 0) ? rest + y : rest;
}

Value FloatPower(Run& run, double x, double y, bool is_untrusted) {
  if (x == 0 && y < 0) return ZeroDivision(run, "0.0 cannot be raised to a negative power");
  if (x < 0 && std::floor(y) != y && std::isfinite(x) && std::isfinite(y)) {
    return run.TypeError("complex numbers are not supported");
  }
  const double result = std::pow(x, y);
  if (std::isinf(result) && std::isfinite(x) && std::isfinite(y)) {
    return run.Fail(Error::Kind::kRuntime, "(34, 'Numerical result out of range')");
  }
  return Value::Float(result, is_untrusted);
}

Value FloatArithmetic(Run& run, BinaryOperator operation, const Value& a, const Value& b) {
  const double x = a.AsDouble();
  const double y = b.AsDouble();
  const bool is_untrusted = IsUntrusted(a, b);
  switch (operation) {
    case BinaryOperator::kAdd:
      return Value::Float(x + y, is_untrusted);
    case BinaryOperator::kSubtract:
      return Value::Float(x - y, is_untrusted);
    case BinaryOperator::kMultiply:
      return Value::Float(x * y, is_untrusted);
    case BinaryOperator::kDivide:
      if (y == 0) return ZeroDivision(run, "float division by zero");
      return Value::Float(x / y, is_untrusted);
    case BinaryOperator::kFloorDivide: {
      if (y == 0) return ZeroDivision(run, "float floor division by zero");
      return Value::Float(std::round((x - FloatModulo(x, y)) / y), is_untrusted);
    }
    case BinaryOperator::kModulo:
      if (y == 0) return ZeroDivision(run, "float modulo");
      return Value::Float(FloatModulo(x, y), is_untrusted);
    case BinaryOperator::kPower:
      return FloatPower(run, x, y, is_untrusted);
  }
  return Value();
}

Value RepeatItems(Run& run, const Value& sequence, Int count) {
  const auto size = static_cast<Int>(sequence.items().size());
  if (count < 0 || size == 0) count = 0;
  if (count > Int{1} << 40 || !run.CheckMemory(static_cast<size_t>(size * count) * sizeof(Value))) {
    return run.Fail(Error::Kind::kLimit, "a list is too long");
  }
  if (!run.Step(static_cast<int64_t>(size * count))) return Value();
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(size * count));
  for (Int i = 0; i < count; ++i) {
    items.insert(items.end(), sequence.items().begin(), sequence.items().end());
  }
  return sequence.Is(Kind::kTuple) ? run.Tuple(std::move(items)) : run.List(std::move(items));
}

Value JoinItems(Run& run, const Value& a, const Value& b) {
  const size_t size = a.items().size() + b.items().size();
  if (!run.CheckMemory(size * sizeof(Value)) || !run.Step(static_cast<int64_t>(size)))
    return Value();
  std::vector<Value> items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.Is(Kind::kTuple) ? run.Tuple(std::move(items)) : run.List(std::move(items));
}

// What is escaped stays so: what joins it is escaped, too.
Value JoinTexts(Run& run, const Value& a, const Value& b) {
  const bool is_markup = a.string().is_markup || b.string().is_markup;
  if (!run.CheckMemory(a.text().size() + b.text().size())) return Value();
  Text joined;
  joined.Reserve(a.text().size() + b.text().size());
  joined.Append(is_markup ? Escaped(run, a) : a.text());
  joined.Append(is_markup ? Escaped(run, b) : b.text());
  return run.String(std::move(joined), is_markup);
}

Value Add(Run& run, const Value& a, const Value& b) {
  if (a.IsString() && b.IsString()) return JoinTexts(run, a, b);
  if (a.IsSequence() && a.kind() == b.kind()) return JoinItems(run, a, b);
  if (a.IsString() || a.IsSequence()) {
    const std::string type = a.IsString() ? "str" : TypeName(a);
    return run.TypeError(
        absl::StrCat("can only concatenate ", type, " (not \"", TypeName(b), "\") to ", type));
  }
  return run.TypeError(absl::StrCat("unsupported operand type(s) for +: '", TypeName(a), "' and '",
                                    TypeName(b), "'"));
}

Value Multiply(Run& run, const Value& a, const Value& b) {
  const bool a_repeats = a.IsString() || a.IsSequence();
  const Value& repeated = a_repeats ? a : b;
  const Value& count = a_repeats ? b : a;
  if (repeated.IsString() || repeated.IsSequence()) {
    if (!count.IsInt()) {
      return run.TypeError(
          absl::StrCat("can't multiply sequence by non-int of type '", TypeName(count), "'"));
    }
    return repeated.IsString() ? RepeatText(run, repeated.text(), count.int_value())
                               : RepeatItems(run, repeated, count.int_value());
  }
  return run.TypeError(absl::StrCat("unsupported operand type(s) for *: '", TypeName(a), "' and '",
                                    TypeName(b), "'"));
}

}  // namespace

Value Apply(Run& run, BinaryOperator operation, const Value& a, const Value& b) {
  if (run.failed()) return Value();
  if (a.IsUndefined() || (b.IsUndefined() && !a.IsString())) {
    return run.FailUndefined(a.IsUndefined() ? a : b);
  }
  if (a.IsNumber() && b.IsNumber()) {
    return a.IsInt() && b.IsInt() ? IntArithmetic(run, operation, a, b)
                                  : FloatArithmetic(run, operation, a, b);
  }
  if (operation == BinaryOperator::kModulo && a.IsString()) return PercentFormat(run, a.text(), b);
  if (b.IsUndefined()) return run.FailUndefined(b);
  if (operation == BinaryOperator::kAdd) return Add(run, a, b);
  if (operation == BinaryOperator::kMultiply) return Multiply(run, a, b);
  return run.TypeError(absl::StrCat("unsupported operand type(s) for ", Symbol(operation), ": '",
                                    TypeName(a), "' and '", TypeName(b), "'"));
}

Value Negate(Run& run, const Value& value) {
  if (value.IsUndefined()) return run.FailUndefined(value);
  if (value.Is(Kind::kFloat)) {
    return Value::Float(-value.float_value(), value.IsUntrustedNumber());
  }
  if (value.IsInt()) return IntArithmetic(run, BinaryOperator::kSubtract, Value::Integer(0), value);
  return run.TypeError(absl::StrCat("bad operand type for unary -: '", TypeName(value), "'"));
}

Value Plus(Run& run, const Value& value) {
  if (value.IsUndefined()) return run.FailUndefined(value);
  if (value.Is(Kind::kFloat)) return value;
  if (value.IsInt()) return Value::Integer(value.int_value(), value.IsUntrustedNumber());
  return run.TypeError(absl::StrCat("bad operand type for unary +: '", TypeName(value), "'"));
}

Value Concatenate(Run& run, const std::vector<Value>& values) {
  Text joined;
  for (const Value& value : values) {
    const Text text = Str(run, value);
    if (!run.CheckMemory(joined.size() + text.size())) return Value();
    joined.Append(text);
  }
  return run.String(std::move(joined));
}

Value RepeatText(Run& run, const Text& text, Int count) {
  if (count <= 0 || text.empty()) return run.String("");
  if (count > Int{1} << 40 || !run.CheckMemory(text.size() * static_cast<size_t>(count))) {
    return run.Fail(Error::Kind::kLimit, "a string is too long");
  }
  Text repeated;
  repeated.Reserve(text.size() * static_cast<size_t>(count));
  for (Int i = 0; i < count; ++i) {
    if (!run.StepBytes(text.size())) return Value();
    repeated.Append(text);
  }
  return run.String(std::move(repeated));
}

Value CallValue(Run& run, const Value& callee, const Arguments& arguments) {
  if (run.failed()) return Value();
  if (callee.IsUndefined()) return run.FailUndefined(callee);
  if (!callee.Is(Kind::kNative)) {
    return run.TypeError(absl::StrCat("'", TypeName(callee), "' object is not callable"));
  }
  return callee.native().Call(run, arguments);
}

}  // namespace sluice::jinja
