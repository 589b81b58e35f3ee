#include "services/tokenizer/jinja/tests.h"

#include <array>

#include "services/tokenizer/jinja/arguments.h"
#include "services/tokenizer/jinja/compare.h"
#include "services/tokenizer/jinja/filters.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/methods.h"
#include "services/tokenizer/jinja/operators.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {
namespace {

using Kind = Value::Kind;

// A test that looks at the value alone.
template <bool (*holds)(Run&, const Value&)>
bool Alone(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "test", arguments, {}, 0);
  return !run.failed() && holds(run, value);
}

bool IsDefined(Run&, const Value& value) { return !value.IsUndefined(); }
bool IsUndefinedValue(Run&, const Value& value) { return value.IsUndefined(); }
bool IsNoneValue(Run&, const Value& value) { return value.IsNone(); }
bool IsBoolean(Run&, const Value& value) { return value.Is(Kind::kBool); }
bool IsTrueValue(Run&, const Value& value) { return value.Is(Kind::kBool) && value.bool_value(); }
bool IsFalseValue(Run&, const Value& value) { return value.Is(Kind::kBool) && !value.bool_value(); }
bool IsInteger(Run&, const Value& value) { return value.Is(Kind::kInt); }
bool IsFloat(Run&, const Value& value) { return value.Is(Kind::kFloat); }
bool IsNumber(Run&, const Value& value) { return value.IsNumber(); }
bool IsStringValue(Run&, const Value& value) { return value.IsString(); }
bool IsMapping(Run&, const Value& value) { return value.IsDict(); }
bool IsIterableValue(Run&, const Value& value) { return IsIterable(value); }
bool IsEscaped(Run&, const Value& value) { return value.IsString() && value.string().is_markup; }
bool IsCallableValue(Run&, const Value& value) {
  return value.IsUndefined() || (value.Is(Kind::kNative) && value.native().IsCallable());
}
bool IsSequenceValue(Run&, const Value& value) {
  return value.IsUndefined() || value.IsString() || value.IsSequence() || value.IsDict() ||
         value.Is(Kind::kRange);
}

template <bool is_upper>
bool HasCase(Run& run, const Value& value) {
  const Value text = run.String(Str(run, value));
  if (run.failed()) return false;
  const Value result = FindStringTest(is_upper ? "isupper" : "islower")(run, text, Arguments());
  return IsTrue(run, result);
}

template <int rest>
bool HasRest(Run& run, const Value& value) {
  const Value found = Apply(run, BinaryOperator::kModulo, value, Value::Integer(2));
  return !run.failed() && Equal(run, found, Value::Integer(rest));
}

bool DivisibleBy(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "test_divisibleby", arguments, {"num"}, 1);
  const Value rest = Apply(run, BinaryOperator::kModulo, value, bound[0]);
  return !run.failed() && Equal(run, rest, Value::Integer(0));
}

bool IsSame(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "test_sameas", arguments, {"other"}, 1);
  const Value& other = bound[0];
  if (run.failed() || value.kind() != other.kind()) return false;
  if (value.object() != nullptr) {
    return value.object() == other.object() || (value.IsString() && value.bytes() == other.bytes());
  }
  return Equal(run, value, other);
}

bool IsIn(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "test_in", arguments, {"seq"}, 1);
  return !run.failed() && Contains(run, bound[0], value);
}

bool IsFilter(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "test_filter", arguments, {}, 0);
  return value.IsString() && FindFilter(value.bytes()) != nullptr;
}

bool IsTest(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "test_test", arguments, {}, 0);
  return value.IsString() && FindTest(value.bytes()) != nullptr;
}

template <bool expected>
bool IsEqual(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "eq", arguments, {"b"}, 1);
  return !run.failed() && Equal(run, value, bound[0]) == expected;
}

enum class Relation { kLess, kLessOrEqual, kGreater, kGreaterOrEqual };

template <Relation relation>
bool IsOrdered(Run& run, const Value& value, const Arguments& arguments) {
  constexpr std::array<const char*, 4> kSymbols = {"<", "<=", ">", ">="};
  const Bound bound(run, "compare", arguments, {"b"}, 1);
  if (run.failed()) return false;
  const int order = Order(run, value, bound[0], kSymbols[static_cast<size_t>(relation)]);
  if (order == 2) return false;
  switch (relation) {
    case Relation::kLess:
      return order < 0;
    case Relation::kLessOrEqual:
      return order <= 0;
    case Relation::kGreater:
      return order > 0;
    case Relation::kGreaterOrEqual:
      return order >= 0;
  }
  return false;
}

struct TestEntry {
  std::string_view name;
  Test test;
};

constexpr auto kLess = IsOrdered<Relation::kLess>;
constexpr auto kLessOrEqual = IsOrdered<Relation::kLessOrEqual>;
constexpr auto kGreater = IsOrdered<Relation::kGreater>;
constexpr auto kGreaterOrEqual = IsOrdered<Relation::kGreaterOrEqual>;

constexpr std::array<TestEntry, 39> kTests = {{
    {"odd", Alone<HasRest<1>>},
    {"even", Alone<HasRest<0>>},
    {"divisibleby", DivisibleBy},
    {"defined", Alone<IsDefined>},
    {"undefined", Alone<IsUndefinedValue>},
    {"filter", IsFilter},
    {"test", IsTest},
    {"none", Alone<IsNoneValue>},
    {"boolean", Alone<IsBoolean>},
    {"false", Alone<IsFalseValue>},
    {"true", Alone<IsTrueValue>},
    {"integer", Alone<IsInteger>},
    {"float", Alone<IsFloat>},
    {"lower", Alone<HasCase<false>>},
    {"upper", Alone<HasCase<true>>},
    {"string", Alone<IsStringValue>},
    {"mapping", Alone<IsMapping>},
    {"number", Alone<IsNumber>},
    {"sequence", Alone<IsSequenceValue>},
    {"iterable", Alone<IsIterableValue>},
    {"callable", Alone<IsCallableValue>},
    {"sameas", IsSame},
    {"escaped", Alone<IsEscaped>},
    {"in", IsIn},
    {"==", IsEqual<true>},
    {"eq", IsEqual<true>},
    {"equalto", IsEqual<true>},
    {"!=", IsEqual<false>},
    {"ne", IsEqual<false>},
    {">", kGreater},
    {"gt", kGreater},
    {"greaterthan", kGreater},
    {"ge", kGreaterOrEqual},
    {">=", kGreaterOrEqual},
    {"<", kLess},
    {"lt", kLess},
    {"lessthan", kLess},
    {"<=", kLessOrEqual},
    {"le", kLessOrEqual},
}};

}  // namespace

Test FindTest(std::string_view name) {
  for (const TestEntry& entry : kTests) {
    if (entry.name == name) return entry.test;
  }
  return nullptr;
}

}  // namespace sluice::jinja
