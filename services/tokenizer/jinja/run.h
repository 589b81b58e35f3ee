// One rendering: what it has used of its limits, its first error, and the making of values. Errors
// stick: after the first, every operation does nothing and gives nothing, so that callers look at
// failed() only where they loop. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "services/tokenizer/jinja/error.h"
#include "services/tokenizer/jinja/limits.h"
#include "services/tokenizer/jinja/local_time.h"
#include "services/tokenizer/jinja/stack_guard.h"
#include "services/tokenizer/jinja/value.h"

namespace sluice::jinja {

struct Scope;

class Run {
 public:
  // `checkpoint` as Context's.
  Run(const Limits& limits, const LocalTime& now, const std::function<bool()>* checkpoint = nullptr)
      : limits_(limits), now_(now), checkpoint_(checkpoint), stack_(limits.max_stack_bytes) {}
  Run(const Run&) = delete;
  ~Run();

  const Limits& limits() const { return limits_; }
  const LocalTime& now() const { return now_; }

  // The variables that the template is given: a dict.
  void set_context(Value context) { context_ = std::move(context); }
  const Value& context() const { return context_; }

  // Errors. Each keeps the first, with the place of what is evaluated, and gives no value.
  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }
  Value Fail(Error::Kind kind, std::string message);
  Value TypeError(std::string message) { return Fail(Error::Kind::kType, std::move(message)); }
  Value ValueError(std::string message) { return Fail(Error::Kind::kValue, std::move(message)); }
  // The use of something undefined. REQUIRES: value.IsUndefined().
  Value FailUndefined(const Value& value);
  void set_place(const Place& place) { place_ = place; }
  const Place& place() const { return place_; }

  // Each is true while the run may go on.
  bool Step(int64_t steps = 1);
  bool StepBytes(size_t bytes) { return Step(1 + static_cast<int64_t>(bytes / 64)); }
  bool CheckStack();
  // Whether `bytes` more fit.
  bool CheckMemory(size_t bytes);

  // Values.
  Value String(Text text, bool is_markup = false);
  Value String(std::string text) { return String(Text(std::move(text))); }
  Value List(std::vector<Value> items) { return Sequence(Value::Kind::kList, std::move(items)); }
  Value Tuple(std::vector<Value> items) { return Sequence(Value::Kind::kTuple, std::move(items)); }
  Value Dict(std::vector<std::pair<Value, Value>> entries);
  Value Undefined(std::string message, bool is_unsafe = false);
  // Python's for a name or attribute that is not there.
  Value UndefinedName(std::string_view name);
  Value UndefinedAttribute(const Value& object, const Value& name);

  // Charges and bounds an object around values of at most `inner_depth`; nullptr if refused.
  template <typename T, typename... Args>
  std::shared_ptr<T> Make(int inner_depth, size_t extra_bytes, Args&&... args) {
    if (!Admit(inner_depth, sizeof(T) + extra_bytes)) return nullptr;
    auto object = std::make_shared<T>(std::forward<Args>(args)...);
    object->ChargeTo(&meter_, sizeof(T) + extra_bytes);
    object->set_depth(inner_depth + 1);
    return object;
  }
  template <typename T, typename... Args>
  Value MakeNative(int inner_depth, Args&&... args) {
    auto object = Make<T>(inner_depth, 0, std::forward<Args>(args)...);
    return object == nullptr ? Value() : Value(Value::Kind::kNative, std::move(object));
  }
  template <typename T, typename... Args>
  Value MakeIterator(int inner_depth, Args&&... args) {
    auto object = Make<T>(inner_depth, 0, std::forward<Args>(args)...);
    return object == nullptr ? Value() : Value(Value::Kind::kIterator, std::move(object));
  }

  // Keeps what may come to refer to itself until the end of the run, where it is cleared.
  bool Keep(std::shared_ptr<Native> native);
  bool Keep(std::shared_ptr<Scope> scope);

  // Nesting of calls.
  bool EnterCall();
  void LeaveCall() { --call_depth_; }

 private:
  static constexpr int64_t kCheckpointSteps = 2000;

  bool Admit(int inner_depth, size_t bytes);
  Value Sequence(Value::Kind kind, std::vector<Value> items);

  const Limits& limits_;
  const LocalTime& now_;
  const std::function<bool()>* const checkpoint_;
  const StackGuard stack_;
  Meter meter_;  // before what is charged to it
  std::vector<std::shared_ptr<Native>> kept_natives_;
  std::vector<std::shared_ptr<Scope>> kept_scopes_;
  Value context_;
  std::optional<Error> error_;
  Place place_;
  int64_t steps_ = 0;
  int64_t next_checkpoint_ = kCheckpointSteps;
  int call_depth_ = 0;
};

}  // namespace sluice::jinja
