#include <optional>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/methods.h"
#include "services/tokenizer/jinja/operators.h"
#include "services/tokenizer/jinja/python_text.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

using Kind = Value::Kind;

// Where an index leads in what has `size` items; nullopt outside.
std::optional<Int> Position(Int index, Int size) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? std::optional(index) : std::nullopt;
}

std::optional<Value> CharOf(Run& run, const Value& text, Int index) {
  const std::optional<Int> position = Position(index, Length(run, text));
  if (!position.has_value()) return std::nullopt;
  auto begin = static_cast<size_t>(*position);
  if (!text.string().is_ascii) begin = ByteOfChar(text.bytes(), begin);
  return CharAt(run, text, begin, begin + ReadChar(text.bytes(), begin).length);
}

// What object[key] is in Python; nullopt where that is an error.
std::optional<Value> Subscript(Run& run, const Value& object, const Value& key) {
  if (object.IsDict()) {
    if (key.IsString()) run.StepBytes(key.text().size());
    const Value* found = object.dict().Find(key);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (!key.IsInt()) return std::nullopt;
  if (object.IsString()) return CharOf(run, object, key.int_value());
  if (object.IsSequence()) {
    const auto position = Position(key.int_value(), static_cast<Int>(object.items().size()));
    if (!position.has_value()) return std::nullopt;
    return object.items()[static_cast<size_t>(*position)];
  }
  if (!object.Is(Kind::kRange)) return std::nullopt;
  const RangeObject& range = object.range();
  const auto position = Position(key.int_value(), range.size);
  if (!position.has_value()) return std::nullopt;
  return Value::Integer(range.begin + range.step * *position);
}

bool IsInternal(std::string_view name) {
  for (const std::string_view known :
       {"__class__", "__init__", "__doc__", "__dict__", "__len__", "__getitem__", "__iter__",
        "__module__", "__call__", "__eq__", "__hash__", "__str__", "__repr__", "__add__",
        "__globals__", "__code__", "__self__", "__name__"}) {
    if (name == known) return true;
  }
  return false;
}

Value Unsafe(Run& run, const Value& object, std::string_view name) {
  return run.Undefined(absl::StrCat("access to attribute ", ReprString(name), " of '",
                                    TypeName(object), "' object is unsafe."),
                       /*is_unsafe=*/true);
}

// What getattr gives in Python, as far as the sandbox lets it; nullopt where there is none.
std::optional<Value> PythonAttribute(Run& run, const Value& object, std::string_view name) {
  if (object.Is(Kind::kNative)) {
    if (auto value = object.native().Attribute(run, name); value.has_value()) return value;
  } else if (object.Is(Kind::kTuple) && (name == "grouper" || name == "list") &&
             static_cast<const SequenceObject&>(*object.object()).is_group) {
    return object.items()[name == "grouper" ? 0 : 1];
  } else if (HasMethod(object, name)) {
    return MakeMethod(run, object, name);
  } else if (IsRefusedMethod(object, name)) {
    return Unsafe(run, object, name);
  }
  if (IsInternal(name) && TypeName(object) != "Namespace") return Unsafe(run, object, name);
  return std::nullopt;
}

struct Bounds {
  Int begin;
  Int step;
  Int count;
};

std::optional<Int> Index(Run& run, const Value& value) {
  if (value.IsMissing() || value.IsNone()) return std::nullopt;
  if (value.IsInt()) return value.int_value();
  run.TypeError("slice indices must be integers or None or have an __index__ method");
  return std::nullopt;
}

Int Clamp(Int value, Int low, Int high) { return value < low ? low : value > high ? high : value; }

// As Python's slice.indices, and how many items those are.
Bounds Resolve(Int size, std::optional<Int> begin, std::optional<Int> end, Int step) {
  constexpr Int kFar = Int{1} << 62;
  step = Clamp(step, -kFar, kFar);
  const Int low = step < 0 ? -1 : 0;
  const Int high = step < 0 ? size - 1 : size;
  const auto resolve = [&](std::optional<Int> at, Int otherwise) {
    if (!at.has_value()) return otherwise;
    const Int near = Clamp(*at, -kFar, kFar);
    return Clamp(near < 0 ? near + size : near, low, high);
  };
  const Int from = resolve(begin, step < 0 ? high : low);
  const Int to = resolve(end, step < 0 ? low : high);
  const Int distance = step < 0 ? from - to : to - from;
  const Int stride = step < 0 ? -step : step;
  return {from, step, distance <= 0 ? 0 : (distance - 1) / stride + 1};
}

Value SliceText(Run& run, const Value& text, const Bounds& bounds) {
  if (bounds.count == 0) return run.String("");
  const bool is_ascii = text.string().is_ascii;
  const auto first = static_cast<size_t>(bounds.begin);
  const auto count = static_cast<size_t>(bounds.count);
  if (bounds.step == 1) {
    const size_t begin = is_ascii ? first : ByteOfChar(text.bytes(), first);
    const size_t length =
        is_ascii ? count : ByteOfChar(std::string_view(text.bytes()).substr(begin), count);
    return run.String(text.text().Part(begin, begin + length), text.string().is_markup);
  }
  std::vector<size_t> begins;  // of characters
  if (!run.CheckMemory(text.text().size() * sizeof(size_t))) return Value();
  for (size_t at = 0; at < text.text().size(); at += ReadChar(text.bytes(), at).length) {
    begins.push_back(at);
  }
  Text picked;
  for (Int i = 0; i < bounds.count && run.Step(); ++i) {
    const size_t begin = begins[static_cast<size_t>(bounds.begin + i * bounds.step)];
    picked.AppendPart(text.text(), begin, begin + ReadChar(text.bytes(), begin).length);
  }
  return run.String(std::move(picked));
}

Value SliceItems(Run& run, const Value& sequence, const Bounds& bounds) {
  if (!run.CheckMemory(static_cast<size_t>(bounds.count) * sizeof(Value))) return Value();
  std::vector<Value> items;
  for (Int i = 0; i < bounds.count && run.Step(); ++i) {
    items.push_back(sequence.items()[static_cast<size_t>(bounds.begin + i * bounds.step)]);
  }
  return sequence.Is(Kind::kTuple) ? run.Tuple(std::move(items)) : run.List(std::move(items));
}

Value SliceRange(Run& run, const RangeObject& range, const Bounds& bounds) {
  auto part = run.Make<RangeObject>(-1, 0);
  if (part == nullptr) return Value();
  part->begin = range.begin + bounds.begin * range.step;
  part->step = bounds.count == 0 ? range.step : range.step * bounds.step;
  part->size = bounds.count;
  part->end = part->begin + part->step * part->size;
  return Value(Kind::kRange, std::move(part));
}

}  // namespace

Value GetAttribute(Run& run, const Value& object, std::string_view name) {
  if (run.failed()) return Value();
  if (object.IsUndefined()) return run.FailUndefined(object);
  if (auto value = PythonAttribute(run, object, name); value.has_value()) return *value;
  if (object.IsDict()) {
    if (const Value* found = object.dict().Find(name); found != nullptr) return *found;
  }
  return run.UndefinedAttribute(object, run.String(std::string(name)));
}

Value GetItem(Run& run, const Value& object, const Value& key) {
  if (run.failed()) return Value();
  if (object.IsUndefined()) return run.FailUndefined(object);
  if (auto value = Subscript(run, object, key); value.has_value()) return *value;
  if (key.IsString()) {
    if (auto value = PythonAttribute(run, object, key.bytes()); value.has_value()) return *value;
  }
  return run.UndefinedAttribute(object, key);
}

Value GetSlice(Run& run, const Value& object, const Value& begin, const Value& end,
               const Value& step) {
  if (run.failed()) return Value();
  if (object.IsUndefined()) return run.FailUndefined(object);
  if (object.IsDict()) return run.TypeError("unhashable type: 'slice'");
  if (!object.IsString() && !object.IsSequence() && !object.Is(Kind::kRange)) {
    return run.TypeError(absl::StrCat("'", TypeName(object), "' object is not subscriptable"));
  }
  const std::optional<Int> stride = Index(run, step);
  const std::optional<Int> from = Index(run, begin);
  const std::optional<Int> to = Index(run, end);
  if (run.failed()) return Value();
  if (stride == Int{0}) return run.ValueError("slice step cannot be zero");
  const Bounds bounds = Resolve(Length(run, object), from, to, stride.value_or(1));
  if (object.IsString()) return SliceText(run, object, bounds);
  if (object.IsSequence()) return SliceItems(run, object, bounds);
  return SliceRange(run, object.range(), bounds);
}

}  // namespace sluice::jinja
