#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/arguments.h"
#include "services/tokenizer/jinja/compare.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/methods.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {
namespace {

using Kind = Value::Kind;

Value Get(Run& run, const Value& self, const Arguments& arguments) {
  if (!arguments.keywords.empty()) return run.TypeError("dict.get() takes no keyword arguments");
  const Bound bound(run, "get", arguments, {"key", "default"}, 1);
  if (run.failed()) return Value();
  if (!KeyIdentity(bound[0]).has_value()) {
    return run.TypeError(absl::StrCat("unhashable type: '", TypeName(bound[0]), "'"));
  }
  if (bound[0].IsString()) run.StepBytes(bound[0].text().size());
  const Value* found = self.dict().Find(bound[0]);
  if (found != nullptr) return *found;
  return bound.Has(1) ? bound[1] : Value::None();
}

// What items(), keys() and values() give: can be gone through, but has no positions.
class DictView : public Native {
 public:
  DictView(std::string type, Value items) : type_(std::move(type)), items_(std::move(items)) {}

  std::string TypeName() const override { return type_; }
  const Value* Items() const override { return &items_; }
  std::optional<Int> Length(Run&) override { return static_cast<Int>(items_.items().size()); }
  Text Repr(Run& run) override {
    Text text(type_ + "(");
    text.Append(jinja::Repr(run, items_));
    text.Append(")");
    return text;
  }

 private:
  const std::string type_;
  const Value items_;
};

Value MakeView(Run& run, const char* type, std::vector<Value> items) {
  const Value list = run.List(std::move(items));
  return run.failed() ? Value() : run.MakeNative<DictView>(list.depth(), type, list);
}

Value DictItems(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "items", arguments, {}, 0);
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict().entries()) {
    if (!run.Step()) return Value();
    items.push_back(run.Tuple({key, value}));
  }
  return MakeView(run, "dict_items", std::move(items));
}

Value Keys(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "keys", arguments, {}, 0);
  std::vector<Value> keys;
  for (const auto& entry : self.dict().entries()) keys.push_back(entry.first);
  return MakeView(run, "dict_keys", std::move(keys));
}

Value Values(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "values", arguments, {}, 0);
  std::vector<Value> values;
  for (const auto& entry : self.dict().entries()) values.push_back(entry.second);
  return MakeView(run, "dict_values", std::move(values));
}

Value Copy(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "copy", arguments, {}, 0);
  return self;
}

Value IndexOf(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "index", arguments, {"value", "start", "stop"}, 1);
  const std::vector<Value> items = ToVector(run, self);
  const auto size = static_cast<Int>(items.size());
  const auto clamp = [&](Int at) { return std::clamp<Int>(at < 0 ? at + size : at, 0, size); };
  const Int end = clamp(bound.Integer(2, size));
  for (Int i = clamp(bound.Integer(1, 0)); i < end && !run.failed(); ++i) {
    if (Equal(run, items[static_cast<size_t>(i)], bound[0])) return Value::Integer(i);
  }
  if (run.failed()) return Value();
  return run.ValueError(self.Is(Kind::kTuple) ? "tuple.index(x): x not in tuple"
                                              : absl::StrCat(Repr(run, bound[0]).bytes(),
                                                             " is not in ", TypeName(self)));
}

Value CountOf(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "count", arguments, {"value"}, 1);
  Int count = 0;
  const std::shared_ptr<Iterator> items = Iterate(run, self);
  while (items != nullptr) {
    const std::optional<Value> item = items->Next(run);
    if (!item.has_value()) break;
    if (Equal(run, *item, bound[0])) ++count;
  }
  return Value::Integer(count);
}

constexpr std::array<MethodEntry, 5> kDictMethods = {
    {{"get", Get}, {"items", DictItems}, {"keys", Keys}, {"values", Values}, {"copy", Copy}}};
constexpr std::array<MethodEntry, 3> kListMethods = {
    {{"index", IndexOf}, {"count", CountOf}, {"copy", Copy}}};

}  // namespace

Method FindContainerMethod(Value::Kind kind, std::string_view name) {
  if (kind == Kind::kDict) return FindIn(kDictMethods, name);
  if (kind == Kind::kList) return FindIn(kListMethods, name);
  const bool is_counted = kind == Kind::kTuple || kind == Kind::kRange;
  return is_counted && name != "copy" ? FindIn(kListMethods, name) : nullptr;
}

}  // namespace sluice::jinja
