#include "services/tokenizer/jinja/globals.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/arguments.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/operators.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {
namespace {

using Implementation = Value (*)(Run& run, const Arguments& arguments);

class Function : public Native {
 public:
  Function(std::string name, Implementation implementation)
      : name_(std::move(name)), implementation_(implementation) {}
  std::string TypeName() const override { return "function"; }
  bool IsCallable() const override { return true; }
  Value Call(Run& run, const Arguments& arguments) override {
    return implementation_(run, arguments);
  }
  Text Repr(Run&) override { return Text(absl::StrCat("<function ", name_, ">")); }

 private:
  const std::string name_;
  const Implementation implementation_;
};

Value RaiseException(Run& run, const Arguments& arguments) {
  const Bound bound(run, "raise_exception", arguments, {"message"}, 1);
  if (run.failed()) return Value();
  return run.Fail(Error::Kind::kRaised, Str(run, bound[0]).bytes());
}

Value StrftimeNow(Run& run, const Arguments& arguments) {
  const Bound bound(run, "strftime_now", arguments, {"format"}, 1);
  const Text format = bound.String(0, "");
  if (run.failed() || !run.CheckMemory(format.size() * 16)) return Value();
  return run.String(Text(FormatTime(format.bytes(), run.now()), format.HasUntrusted()));
}

Value Range(Run& run, const Arguments& arguments) {
  const Bound bound(run, "range", arguments, {"start", "stop", "step"}, 1);
  auto range = run.Make<RangeObject>(-1, 0);
  if (range == nullptr) return Value();
  range->begin = bound.Has(1) ? bound.Integer(0, 0) : 0;
  range->end = bound.Has(1) ? bound.Integer(1, 0) : bound.Integer(0, 0);
  range->step = bound.Integer(2, 1);
  if (run.failed()) return Value();
  if (range->step == 0) return run.ValueError("range() arg 3 must not be zero");
  constexpr Int kFar = Int{1} << 62;
  for (const Int bound : {range->begin, range->end, range->step}) {
    if (bound > kFar || bound < -kFar) return run.Fail(Error::Kind::kLimit, "a range is too long");
  }
  const Int distance = range->step > 0 ? range->end - range->begin : range->begin - range->end;
  const Int stride = range->step > 0 ? range->step : -range->step;
  range->size = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  if (range->size > run.limits().max_range) {
    return run.Fail(Error::Kind::kLimit,
                    absl::StrCat("Range too big. The sandbox blocks ranges larger than ",
                                 "MAX_RANGE (", run.limits().max_range, ")."));
  }
  return Value(Value::Kind::kRange, std::move(range));
}

// The entries that dict(...) makes.
std::vector<DictObject::Entry> DictEntries(Run& run, const Arguments& arguments) {
  std::vector<DictObject::Entry> entries;
  if (arguments.positional.size() > 1) {
    run.TypeError(
        absl::StrCat("dict expected at most 1 argument, got ", arguments.positional.size()));
  }
  if (!arguments.positional.empty() && !run.failed()) {
    const Value& first = arguments.positional.front();
    if (first.IsDict()) {
      entries = first.dict().entries();
    } else {
      for (const Value& pair : ToVector(run, first)) {
        const std::vector<Value> parts = ToVector(run, pair);
        if (parts.size() != 2)
          run.ValueError("dictionary update sequence element has not length 2");
        if (run.failed()) return entries;
        entries.emplace_back(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.keywords)
    entries.emplace_back(run.String(name), value);
  return entries;
}

Value Dict(Run& run, const Arguments& arguments) {
  std::vector<DictObject::Entry> entries = DictEntries(run, arguments);
  return run.failed() ? Value() : run.Dict(std::move(entries));
}

Value MakeNamespace(Run& run, const Arguments& arguments) {
  const std::vector<DictObject::Entry> entries = DictEntries(run, arguments);
  if (run.failed()) return Value();
  auto made = run.Make<Namespace>(0, 0);
  if (made == nullptr || !run.Keep(made)) return Value();
  for (const auto& [key, value] : entries) {
    if (key.IsString()) made->Set(run, key.bytes(), value);
  }
  return run.failed() ? Value() : Value(Value::Kind::kNative, std::move(made));
}

class Cycler : public Native {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  std::string TypeName() const override { return "Cycler"; }
  const Value& current() const { return items_[at_]; }
  void Advance() { at_ = (at_ + 1) % items_.size(); }
  void Reset() { at_ = 0; }

 private:
  const std::vector<Value> items_;
  size_t at_ = 0;
};

class CyclerMethod : public Native {
 public:
  CyclerMethod(Value cycler, bool is_next) : cycler_(std::move(cycler)), is_next_(is_next) {}
  std::string TypeName() const override { return "method"; }
  bool IsCallable() const override { return true; }
  Value Call(Run&, const Arguments&) override {
    auto& cycler = static_cast<Cycler&>(cycler_.native());
    if (!is_next_) {
      cycler.Reset();
      return Value::None();
    }
    Value item = cycler.current();
    cycler.Advance();
    return item;
  }

 private:
  const Value cycler_;
  const bool is_next_;
};

// What templates see of a cycler: its methods need to refer to it.
class CyclerVariable : public Native {
 public:
  explicit CyclerVariable(Value cycler) : cycler_(std::move(cycler)) {}
  std::string TypeName() const override { return "Cycler"; }
  std::optional<Value> Attribute(Run& run, std::string_view name) override {
    if (name == "current") return static_cast<Cycler&>(cycler_.native()).current();
    if (name != "next" && name != "reset") return std::nullopt;
    return run.MakeNative<CyclerMethod>(cycler_.depth(), cycler_, name == "next");
  }

 private:
  const Value cycler_;
};

Value MakeCycler(Run& run, const Arguments& arguments) {
  if (arguments.positional.empty()) {
    return run.Fail(Error::Kind::kRuntime, "at least one item has to be provided");
  }
  int depth = 0;
  for (const Value& item : arguments.positional) depth = std::max(depth, item.depth());
  const Value cycler = run.MakeNative<Cycler>(depth, arguments.positional);
  return run.failed() ? Value() : run.MakeNative<CyclerVariable>(cycler.depth(), cycler);
}

class Joiner : public Native {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string TypeName() const override { return "Joiner"; }
  bool IsCallable() const override { return true; }
  Value Call(Run& run, const Arguments&) override {
    return std::exchange(is_used_, true) ? separator_ : run.String("");
  }

 private:
  const Value separator_;
  bool is_used_ = false;
};

Value MakeJoiner(Run& run, const Arguments& arguments) {
  const Bound bound(run, "joiner", arguments, {"sep"}, 0);
  const Value separator = bound.Has(0) ? bound[0] : run.String(", ");
  return run.failed() ? Value() : run.MakeNative<Joiner>(separator.depth(), separator);
}

struct GlobalEntry {
  std::string_view name;
  Implementation implementation;
};

constexpr std::array<GlobalEntry, 7> kGlobals = {{{"raise_exception", RaiseException},
                                                  {"strftime_now", StrftimeNow},
                                                  {"range", Range},
                                                  {"dict", Dict},
                                                  {"namespace", MakeNamespace},
                                                  {"cycler", MakeCycler},
                                                  {"joiner", MakeJoiner}}};

}  // namespace

std::optional<Value> FindGlobal(Run& run, std::string_view name) {
  for (const GlobalEntry& entry : kGlobals) {
    if (entry.name == name) {
      return run.MakeNative<Function>(0, std::string(name), entry.implementation);
    }
  }
  return std::nullopt;
}

std::optional<Value> Namespace::Attribute(Run&, std::string_view name) {
  const Value* found = attributes_.Find(name);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

Text Namespace::Repr(Run& run) {
  Text text("<Namespace {");
  bool is_first = true;
  for (const auto& [key, value] : attributes_.entries()) {
    if (!run.CheckStack()) break;
    if (!is_first) text.Append(", ");
    is_first = false;
    text.Append(jinja::Repr(run, key));
    text.Append(": ");
    text.Append(jinja::Repr(run, value));
  }
  text.Append("}>");
  return text;
}

void Namespace::Set(Run& run, const std::string& name, const Value& value) {
  if (value.depth() + 1 > run.limits().max_value_depth) {
    run.Fail(Error::Kind::kLimit,
             absl::StrCat("the template's values nest too deeply: accepted are ",
                          run.limits().max_value_depth, " levels"));
    return;
  }
  set_depth(std::max(depth(), value.depth() + 1));
  attributes_.Set(run.String(name), value);
}

Namespace* FindNamespace(const Value& value) {
  return value.Is(Value::Kind::kNative) ? dynamic_cast<Namespace*>(&value.native()) : nullptr;
}

}  // namespace sluice::jinja
