#include "services/tokenizer/jinja/compare.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/text_operations.h"

namespace sluice::jinja {
namespace {

using Kind = Value::Kind;

int SignOf(auto a, auto b) { return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2; }

bool EqualItems(Run& run, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!run.Step() || !Equal(run, a[i], b[i])) return false;
  }
  return true;
}

bool EqualDicts(Run& run, const DictObject& a, const DictObject& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.Find(key);
    if (!run.Step() || other == nullptr || !Equal(run, value, *other)) return false;
  }
  return true;
}

int OrderItems(Run& run, const std::vector<Value>& a, const std::vector<Value>& b,
               const char* operation) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (!run.Step()) return 2;
    if (!Equal(run, a[i], b[i])) return Order(run, a[i], b[i], operation);
  }
  return SignOf(a.size(), b.size());
}

bool ContainsPart(Run& run, const Value& text, const Value& part) {
  if (!part.IsString()) {
    run.TypeError(
        absl::StrCat("'in <string>' requires string as left operand, not ", TypeName(part)));
    return false;
  }
  run.StepBytes(text.text().size() + part.text().size());
  return FindBytes(text.bytes(), part.bytes()) != std::string::npos;
}

bool ContainsKey(Run& run, const DictObject& dict, const Value& key) {
  if (key.Is(Kind::kList) || key.Is(Kind::kDict)) {
    run.TypeError(absl::StrCat("unhashable type: '", TypeName(key), "'"));
    return false;
  }
  if (key.IsString()) run.StepBytes(key.text().size());
  return dict.Find(key) != nullptr;
}

bool ContainsItem(Run& run, const Value& container, const Value& item) {
  const std::shared_ptr<Iterator> items = Iterate(run, container);
  if (items == nullptr) return false;
  while (const std::optional<Value> candidate = items->Next(run)) {
    if (Equal(run, *candidate, item)) return true;
  }
  return false;
}

}  // namespace

bool IsTrue(Run& run, const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.int_value() != 0;
    case Kind::kFloat:
      return value.float_value() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.items().empty();
    case Kind::kDict:
      return value.dict().size() > 0;
    case Kind::kRange:
      return value.range().size > 0;
    case Kind::kIterator:
      return true;
    case Kind::kNative:
      return value.native().Length(run).value_or(1) != 0;
  }
  return true;
}

bool Equal(Run& run, const Value& a, const Value& b) {
  if (!run.Step() || !run.CheckStack()) return false;
  if (a.IsNumber() && b.IsNumber()) {
    if (a.IsInt() && b.IsInt()) return a.int_value() == b.int_value();
    return a.AsDouble() == b.AsDouble();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kString:
      return run.StepBytes(a.text().size()) && a.bytes() == b.bytes();
    case Kind::kList:
    case Kind::kTuple:
      return a.object() == b.object() || EqualItems(run, a.items(), b.items());
    case Kind::kDict:
      return a.object() == b.object() || EqualDicts(run, a.dict(), b.dict());
    case Kind::kRange: {
      const RangeObject& left = a.range();
      const RangeObject& right = b.range();
      return left.size == right.size && (left.size == 0 || left.begin == right.begin) &&
             (left.size < 2 || left.step == right.step);
    }
    case Kind::kIterator:
    case Kind::kNative:
      return a.object() == b.object();
    default:
      return true;
  }
}

int Order(Run& run, const Value& a, const Value& b, const char* operation) {
  if (!run.Step() || !run.CheckStack()) return 2;
  if (a.IsNumber() && b.IsNumber()) {
    if (a.IsInt() && b.IsInt()) return SignOf(a.int_value(), b.int_value());
    return SignOf(a.AsDouble(), b.AsDouble());
  }
  if (a.IsString() && b.IsString()) {
    run.StepBytes(std::min(a.text().size(), b.text().size()));
    return SignOf(a.bytes().compare(b.bytes()), 0);
  }
  if (a.IsSequence() && a.kind() == b.kind())
    return OrderItems(run, a.items(), b.items(), operation);
  if (a.IsUndefined() || b.IsUndefined()) {
    run.FailUndefined(a.IsUndefined() ? a : b);
    return 2;
  }
  run.TypeError(absl::StrCat("'", operation, "' not supported between instances of '", TypeName(a),
                             "' and '", TypeName(b), "'"));
  return 2;
}

bool Contains(Run& run, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      return ContainsPart(run, container, item);
    case Kind::kDict:
      return ContainsKey(run, container.dict(), item);
    case Kind::kRange: {
      const RangeObject& range = container.range();
      if (!item.IsInt()) return ContainsItem(run, container, item);
      const Int steps = (item.int_value() - range.begin) / range.step;
      return steps >= 0 && steps < range.size &&
             range.begin + steps * range.step == item.int_value();
    }
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      run.TypeError(absl::StrCat("argument of type '", TypeName(container), "' is not iterable"));
      return false;
    case Kind::kNative:
      if (Iterate(run, container) == nullptr) return false;
      return ContainsItem(run, container, item);
    default:
      return ContainsItem(run, container, item);
  }
}

}  // namespace sluice::jinja
