#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/arguments.h"
#include "services/tokenizer/jinja/compare.h"
#include "services/tokenizer/jinja/filters.h"
#include "services/tokenizer/jinja/item_path.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/operators.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

Value Default(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_default", arguments, {"default_value", "boolean"}, 0);
  const bool is_replaced = value.IsUndefined() || (bound.Flag(1, false) && !IsTrue(run, value));
  if (run.failed()) return Value();
  if (!is_replaced) return value;
  return bound.Has(0) ? bound[0] : run.String("");
}

Value LengthOf(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "len", arguments, {}, 0);
  return Value::Integer(Length(run, value));
}

Value List(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_list", arguments, {}, 0);
  return run.failed() ? Value() : run.List(ToVector(run, value));
}

Value First(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_first", arguments, {}, 0);
  const std::shared_ptr<Iterator> items = run.failed() ? nullptr : Iterate(run, value);
  if (items == nullptr) return Value();
  const std::optional<Value> first = items->Next(run);
  if (first.has_value()) return *first;
  return run.Undefined("No first item, sequence was empty.");
}

Value Last(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_last", arguments, {}, 0);
  if (value.IsUndefined()) return run.Undefined("No last item, sequence was empty.");
  if (value.Is(Value::Kind::kIterator) || !IsIterable(value)) {
    return run.TypeError(absl::StrCat("'", TypeName(value), "' object is not reversible"));
  }
  if (value.IsString() || value.IsSequence() || value.Is(Value::Kind::kRange)) {
    if (!IsTrue(run, value)) return run.Undefined("No last item, sequence was empty.");
    return GetItem(run, value, Value::Integer(-1));
  }
  const std::vector<Value> items = ToVector(run, value);
  return items.empty() ? run.Undefined("No last item, sequence was empty.") : items.back();
}

// What goes through a vector's items.
Value Generate(Run& run, std::vector<Value> items) {
  const Value list = run.List(std::move(items));
  if (run.failed()) return Value();
  return MakeGenerator(run, list.depth(),
                       [iterator = Iterate(run, list)](Run& run) { return iterator->Next(run); });
}

Value Reverse(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_reverse", arguments, {}, 0);
  if (value.IsString()) {
    return GetSlice(run, value, Value(), Value(), Value::Integer(-1));
  }
  if (!IsIterable(value)) {
    return run.Fail(Error::Kind::kRuntime, "argument must be iterable");
  }
  std::vector<Value> items = ToVector(run, value);
  std::reverse(items.begin(), items.end());
  return Generate(run, std::move(items));
}

Value Items(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_items", arguments, {}, 0);
  if (!value.IsUndefined() && !value.IsDict()) {
    return run.TypeError("Can only get item pairs from a mapping.");
  }
  std::vector<Value> items;
  if (value.IsDict()) {
    for (const auto& [key, item] : value.dict().entries()) {
      if (!run.Step()) return Value();
      items.push_back(run.Tuple({key, item}));
    }
  }
  return Generate(run, std::move(items));
}

Value Batch(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_batch", arguments, {"linecount", "fill_with"}, 1);
  const Int size = bound.Integer(0, 1);
  const bool fills = bound.Has(1) && !bound[1].IsNone();
  std::vector<Value> batches;
  std::vector<Value> batch;
  if (run.failed()) return Value();
  for (const Value& item : ToVector(run, value)) {
    if (static_cast<Int>(batch.size()) == size)
      batches.push_back(run.List(std::exchange(batch, {})));
    batch.push_back(item);
  }
  if (!batch.empty()) {
    const Int missing = size - static_cast<Int>(batch.size());
    if (fills && missing > 0) {
      if (missing > Int{1} << 30 ||
          !run.CheckMemory(static_cast<size_t>(missing) * sizeof(Value))) {
        return run.Fail(Error::Kind::kLimit, "a batch is too long");
      }
      batch.insert(batch.end(), static_cast<size_t>(missing), bound[1]);
    }
    batches.push_back(run.List(std::move(batch)));
  }
  return run.failed() ? Value() : Generate(run, std::move(batches));
}

Value SliceInto(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_slice", arguments, {"slices", "fill_with"}, 1);
  const Int slices = bound.Integer(0, 1);
  const bool fills = bound.Has(1) && !bound[1].IsNone();
  const std::vector<Value> items = ToVector(run, value);
  if (run.failed()) return Value();
  if (slices == 0) return run.Fail(Error::Kind::kRuntime, "integer division or modulo by zero");
  const auto size = static_cast<Int>(items.size());
  const Int each = slices > 0 ? size / slices : 0;
  const Int longer = slices > 0 ? size % slices : 0;
  std::vector<Value> parts;
  for (Int slice = 0, begin = 0; slice < slices && run.Step(); ++slice) {
    const Int end = begin + each + (slice < longer ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<size_t>(begin),
                            items.begin() + static_cast<size_t>(end));
    if (fills && slice >= longer) part.push_back(bound[1]);
    parts.push_back(run.List(std::move(part)));
    begin = end;
  }
  return run.failed() ? Value() : Generate(run, std::move(parts));
}

Value Sum(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_sum", arguments, {"attribute", "start"}, 0);
  const ItemPath path(run, bound[0]);
  Value sum = bound.Has(1) ? bound[1] : Value::Integer(0);
  if (sum.IsString()) {
    return run.TypeError("sum() can't sum strings [use ''.join(seq) instead]");
  }
  const std::shared_ptr<Iterator> items = run.failed() ? nullptr : Iterate(run, value);
  while (items != nullptr) {
    const std::optional<Value> item = items->Next(run);
    if (!item.has_value()) break;
    sum = Apply(run, BinaryOperator::kAdd, sum, path.Follow(run, *item));
  }
  return run.failed() ? Value() : sum;
}

Value AttributeOf(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_attr", arguments, {"name"}, 1);
  const Text name = bound.String(0, "");
  if (run.failed()) return Value();
  if (!value.IsDict()) return GetAttribute(run, value, name.bytes());
  // Of a dict only what Python has, not its keys.
  const Value without_keys = run.Dict({});
  return run.failed() ? Value() : GetAttribute(run, without_keys, name.bytes());
}

constexpr std::array<FilterEntry, 13> kItemsFilters = {{
    {"default", Default},
    {"d", Default},
    {"length", LengthOf},
    {"count", LengthOf},
    {"list", List},
    {"first", First},
    {"last", Last},
    {"reverse", Reverse},
    {"items", Items},
    {"batch", Batch},
    {"slice", SliceInto},
    {"sum", Sum},
    {"attr", AttributeOf},
}};

}  // namespace

Filter FindItemsFilter(std::string_view name) { return FindIn(kItemsFilters, name); }

}  // namespace sluice::jinja
