#include "services/tokenizer/jinja/run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/python_text.h"
#include "services/tokenizer/jinja/scope.h"

namespace sluice::jinja {
namespace {

int MaxDepth(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth;
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// "str object", and for Jinja's own types where they live.
std::string Describe(const Value& object) {
  if (object.IsNone()) return "None";
  const std::string type = TypeName(object);
  if (type == "Namespace" || type == "Cycler" || type == "Joiner") {
    return absl::StrCat("jinja2.utils.", type, " object");
  }
  if (type == "Macro" || type == "LoopContext") {
    return absl::StrCat("jinja2.runtime.", type, " object");
  }
  if (type == "Markup") return "markupsafe.Markup object";
  return absl::StrCat(type, " object");
}

}  // namespace

Run::~Run() {
  for (const auto& native : kept_natives_) native->Clear();
  for (const auto& scope : kept_scopes_) scope->Clear();
}

Value Run::Fail(Error::Kind kind, std::string message) {
  if (!failed()) error_ = Error{kind, std::move(message), place_};
  return Value();
}

Value Run::FailUndefined(const Value& value) {
  const UndefinedObject& undefined = value.undefined();
  return Fail(undefined.is_unsafe ? Error::Kind::kSecurity : Error::Kind::kUndefined,
              undefined.message);
}

bool Run::Step(int64_t steps) {
  if (failed()) return false;
  steps_ += steps;
  if (steps_ >= next_checkpoint_) {
    next_checkpoint_ = steps_ + kCheckpointSteps;
    if (checkpoint_ != nullptr && !(*checkpoint_)()) {
      Fail(Error::Kind::kLimit, "the rendering was ended at a checkpoint");
      return false;
    }
  }
  if (steps_ <= limits_.max_steps) return true;
  Fail(Error::Kind::kLimit,
       absl::StrCat("the template takes too long: accepted are ", limits_.max_steps, " steps"));
  return false;
}

bool Run::CheckStack() {
  if (failed()) return false;
  if (!stack_.IsExceeded()) return true;
  Fail(Error::Kind::kLimit, absl::StrCat("the template nests too deeply: accepted are ",
                                         limits_.max_stack_bytes, " bytes of stack"));
  return false;
}

bool Run::CheckMemory(size_t bytes) {
  if (failed()) return false;
  if (bytes <= limits_.max_value_bytes && meter_.bytes <= limits_.max_value_bytes - bytes) {
    return true;
  }
  Fail(Error::Kind::kLimit,
       absl::StrCat("the template's values take too much memory: accepted are ",
                    limits_.max_value_bytes, " bytes"));
  return false;
}

bool Run::Admit(int inner_depth, size_t bytes) {
  if (!CheckMemory(bytes)) return false;
  if (inner_depth < limits_.max_value_depth) return true;
  Fail(Error::Kind::kLimit, absl::StrCat("the template's values nest too deeply: accepted are ",
                                         limits_.max_value_depth, " levels"));
  return false;
}

Value Run::String(Text text, bool is_markup) {
  const size_t bytes = text.MemoryBytes();
  if (!StepBytes(bytes)) return Value();
  auto object = Make<StringObject>(-1, bytes);
  if (object == nullptr) return Value();
  object->is_ascii = IsAscii(text.bytes());
  object->is_markup = is_markup;
  object->text = std::move(text);
  return Value(Value::Kind::kString, std::move(object));
}

Value Run::Sequence(Value::Kind kind, std::vector<Value> items) {
  const size_t bytes = items.size() * sizeof(Value);
  if (!StepBytes(bytes)) return Value();
  auto object = Make<SequenceObject>(MaxDepth(items), bytes);
  if (object == nullptr) return Value();
  object->items = std::move(items);
  return Value(kind, std::move(object));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the values move into the dictionary
Value Run::Dict(std::vector<std::pair<Value, Value>> entries) {
  size_t bytes = entries.size() * sizeof(DictObject::Entry);
  int depth = 0;
  for (const auto& [key, value] : entries) {
    depth = std::max({depth, key.depth(), value.depth()});
    if (key.IsString()) bytes += key.bytes().size();
  }
  if (!StepBytes(bytes)) return Value();
  auto object = Make<DictObject>(depth, bytes);
  if (object == nullptr) return Value();
  for (auto& [key, value] : entries) {
    if (!object->Set(key, std::move(value))) {
      return TypeError(absl::StrCat("unhashable type: '", TypeName(key), "'"));
    }
  }
  return Value(Value::Kind::kDict, std::move(object));
}

Value Run::Undefined(std::string message, bool is_unsafe) {
  auto object = Make<UndefinedObject>(-1, message.size());
  if (object == nullptr) return Value();
  object->message = std::move(message);
  object->is_unsafe = is_unsafe;
  return Value(Value::Kind::kUndefined, std::move(object));
}

Value Run::UndefinedName(std::string_view name) {
  return Undefined(absl::StrCat(ReprString(name), " is undefined"));
}

Value Run::UndefinedAttribute(const Value& object, const Value& name) {
  if (name.IsString()) {
    return Undefined(absl::StrCat(ReprString(Describe(object)), " has no attribute ",
                                  ReprString(name.bytes().substr(0, 200))));
  }
  return Undefined(
      absl::StrCat(Describe(object), " has no element ", Repr(*this, name).bytes().substr(0, 200)));
}

bool Run::Keep(std::shared_ptr<Native> native) {
  if (!Step()) return false;
  kept_natives_.push_back(std::move(native));
  return true;
}

bool Run::Keep(std::shared_ptr<Scope> scope) {
  constexpr size_t kScopeBytes = 256;
  if (!Step() || !CheckMemory(kScopeBytes)) return false;
  meter_.bytes += kScopeBytes;
  kept_scopes_.push_back(std::move(scope));
  return true;
}

bool Run::EnterCall() {
  ++call_depth_;
  if (!CheckStack()) return false;
  if (call_depth_ <= limits_.max_call_depth) return true;
  Fail(Error::Kind::kLimit, absl::StrCat("the template calls too deeply: accepted are ",
                                         limits_.max_call_depth, " calls inside one another"));
  return false;
}

}  // namespace sluice::jinja
