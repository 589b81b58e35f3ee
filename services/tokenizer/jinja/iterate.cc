#include "services/tokenizer/jinja/iterate.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

class Generator : public Iterator {
 public:
  explicit Generator(NextItem next) : next_(std::move(next)) {}

  std::optional<Value> Next(Run& run) override {
    if (is_done_ || !run.Step() || !run.CheckStack()) return std::nullopt;
    std::optional<Value> item = next_(run);
    if (run.failed()) item.reset();
    if (!item.has_value()) is_done_ = true;
    return item;
  }

 private:
  NextItem next_;
  bool is_done_ = false;
};

class SequenceIterator : public Iterator {
 public:
  explicit SequenceIterator(Value sequence) : sequence_(std::move(sequence)) {}

  std::optional<Value> Next(Run& run) override {
    if (at_ == sequence_.items().size() || !run.Step()) return std::nullopt;
    return sequence_.items()[at_++];
  }
  std::optional<Int> Remaining() const override {
    return static_cast<Int>(sequence_.items().size() - at_);
  }

 private:
  const Value sequence_;
  size_t at_ = 0;
};

class KeyIterator : public Iterator {
 public:
  explicit KeyIterator(Value dict) : dict_(std::move(dict)) {}

  std::optional<Value> Next(Run& run) override {
    if (at_ == dict_.dict().size() || !run.Step()) return std::nullopt;
    return dict_.dict().entries()[at_++].first;
  }
  std::optional<Int> Remaining() const override {
    return static_cast<Int>(dict_.dict().size() - at_);
  }

 private:
  const Value dict_;
  size_t at_ = 0;
};

class CharIterator : public Iterator {
 public:
  explicit CharIterator(Value text) : text_(std::move(text)) {}

  std::optional<Value> Next(Run& run) override {
    if (at_ == text_.text().size() || !run.Step()) return std::nullopt;
    const size_t begin = at_;
    at_ += ReadChar(text_.bytes(), at_).length;
    return CharAt(run, text_, begin, at_);
  }

 private:
  const Value text_;
  size_t at_ = 0;
};

class RangeIterator : public Iterator {
 public:
  explicit RangeIterator(Value range) : range_(std::move(range)) {}

  std::optional<Value> Next(Run& run) override {
    const RangeObject& range = range_.range();
    if (at_ == range.size || !run.Step()) return std::nullopt;
    return Value::Integer(range.begin + range.step * at_++);
  }
  std::optional<Int> Remaining() const override { return range_.range().size - at_; }

 private:
  const Value range_;
  Int at_ = 0;
};

class NoItems : public Iterator {
 public:
  std::optional<Value> Next(Run&) override { return std::nullopt; }
};

}  // namespace

bool IsIterable(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
    case Value::Kind::kString:
    case Value::Kind::kList:
    case Value::Kind::kTuple:
    case Value::Kind::kDict:
    case Value::Kind::kRange:
    case Value::Kind::kIterator:
      return true;
    case Value::Kind::kNative:
      return value.native().Items() != nullptr;
    default:
      return false;
  }
}

std::shared_ptr<Iterator> Iterate(Run& run, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return run.Make<NoItems>(0, 0);
    case Value::Kind::kString:
      return run.Make<CharIterator>(0, 0, value);
    case Value::Kind::kList:
    case Value::Kind::kTuple:
      return run.Make<SequenceIterator>(value.depth(), 0, value);
    case Value::Kind::kDict:
      return run.Make<KeyIterator>(value.depth(), 0, value);
    case Value::Kind::kRange:
      return run.Make<RangeIterator>(0, 0, value);
    case Value::Kind::kIterator:
      return std::static_pointer_cast<Iterator>(value.object());
    case Value::Kind::kNative:
      if (const Value* items = value.native().Items(); items != nullptr)
        return Iterate(run, *items);
      [[fallthrough]];
    default:
      run.TypeError(absl::StrCat("'", TypeName(value), "' object is not iterable"));
      return nullptr;
  }
}

std::vector<Value> ToVector(Run& run, const Value& value) {
  if (value.IsSequence() && run.Step(value.items().size())) return value.items();
  std::vector<Value> items;
  const std::shared_ptr<Iterator> iterator = Iterate(run, value);
  if (iterator == nullptr) return items;
  while (std::optional<Value> item = iterator->Next(run)) {
    if (!run.CheckMemory((items.size() + 1) * sizeof(Value))) break;
    items.push_back(*std::move(item));
  }
  return items;
}

bool HasLength(const Value& value) {
  return IsIterable(value) && !value.Is(Value::Kind::kIterator);
}

Int Length(Run& run, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return 0;
    case Value::Kind::kString:
      run.StepBytes(value.text().size());
      if (value.string().is_ascii) return static_cast<Int>(value.text().size());
      return static_cast<Int>(CountChars(value.bytes()));
    case Value::Kind::kList:
    case Value::Kind::kTuple:
      return static_cast<Int>(value.items().size());
    case Value::Kind::kDict:
      return static_cast<Int>(value.dict().size());
    case Value::Kind::kRange:
      return value.range().size;
    case Value::Kind::kNative:
      if (const auto length = value.native().Length(run); length.has_value()) return *length;
      [[fallthrough]];
    default:
      run.TypeError(absl::StrCat("object of type '", TypeName(value), "' has no len()"));
      return 0;
  }
}

Value MakeGenerator(Run& run, int inner_depth, NextItem next) {
  return run.MakeIterator<Generator>(inner_depth, std::move(next));
}

Value CharAt(Run& run, const Value& text, size_t begin, size_t end) {
  return run.String(text.text().Part(begin, end));
}

}  // namespace sluice::jinja
