#include "services/tokenizer/jinja/expressions.h"

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/compare.h"
#include "services/tokenizer/jinja/globals.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {
namespace {

std::vector<Value> EvaluateAll(const std::vector<ExpressionPtr>& expressions, Frame& frame) {
  std::vector<Value> values;
  values.reserve(expressions.size());
  for (const ExpressionPtr& expression : expressions) values.push_back(expression->Evaluate(frame));
  return values;
}

bool Holds(Run& run, const std::string& operation, const Value& a, const Value& b) {
  if (run.failed()) return false;
  if (operation == "==") return Equal(run, a, b);
  if (operation == "!=") return !Equal(run, a, b);
  if (operation == "in") return Contains(run, b, a);
  if (operation == "not in") return !Contains(run, b, a);
  const int order = Order(run, a, b, operation.c_str());
  if (order == 2) return false;
  if (operation == "<") return order < 0;
  if (operation == "<=") return order <= 0;
  if (operation == ">") return order > 0;
  return order >= 0;
}

Value EvaluateIf(const ExpressionPtr& expression, Frame& frame) {
  return expression == nullptr ? Value() : expression->Evaluate(frame);
}

}  // namespace

Value Name::DoEvaluate(Frame& frame) const {
  if (const Value* value = frame.scope->Find(name_); value != nullptr) return *value;
  if (const Value* value = frame.run.context().dict().Find(std::string_view(name_));
      value != nullptr) {
    return *value;
  }
  if (const auto global = FindGlobal(frame.run, name_); global.has_value()) return *global;
  return frame.run.UndefinedName(name_);
}

Value SequenceLiteral::DoEvaluate(Frame& frame) const {
  std::vector<Value> items = EvaluateAll(items_, frame);
  Run& run = At(frame);
  if (run.failed()) return Value();
  return is_tuple_ ? run.Tuple(std::move(items)) : run.List(std::move(items));
}

Value DictLiteral::DoEvaluate(Frame& frame) const {
  std::vector<DictObject::Entry> entries;
  for (const auto& [key, value] : pairs_) {
    Value evaluated_key = key->Evaluate(frame);
    entries.emplace_back(std::move(evaluated_key), value->Evaluate(frame));
    if (frame.run.failed()) return Value();
  }
  return At(frame).Dict(std::move(entries));
}

Value Unary::DoEvaluate(Frame& frame) const {
  const Value value = operand_->Evaluate(frame);
  Run& run = At(frame);
  if (run.failed()) return Value();
  switch (operation_) {
    case UnaryOperator::kNot:
      return Value::Bool(!IsTrue(run, value));
    case UnaryOperator::kNegate:
      return Negate(run, value);
    case UnaryOperator::kPlus:
      return Plus(run, value);
  }
  return Value();
}

Value Binary::DoEvaluate(Frame& frame) const {
  const Value left = left_->Evaluate(frame);
  const Value right = right_->Evaluate(frame);
  return Apply(At(frame), operation_, left, right);
}

Value Logic::DoEvaluate(Frame& frame) const {
  Value left = left_->Evaluate(frame);
  if (frame.run.failed() || IsTrue(frame.run, left) != is_and_) return left;
  return right_->Evaluate(frame);
}

Value Comparison::DoEvaluate(Frame& frame) const {
  Value left = first_->Evaluate(frame);
  for (const Link& link : links_) {
    Value right = link.operand->Evaluate(frame);
    if (!Holds(At(frame), link.operation, left, right)) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Concatenation::DoEvaluate(Frame& frame) const {
  const std::vector<Value> parts = EvaluateAll(parts_, frame);
  return frame.run.failed() ? Value() : Concatenate(At(frame), parts);
}

Value Conditional::DoEvaluate(Frame& frame) const {
  const Value test = test_->Evaluate(frame);
  if (frame.run.failed()) return Value();
  if (IsTrue(frame.run, test)) return then_->Evaluate(frame);
  if (otherwise_ != nullptr) return otherwise_->Evaluate(frame);
  return At(frame).Undefined(absl::StrCat("the inline if-expression on line ", place().line,
                                          " evaluated to false and no else section was defined."));
}

Value Attribute::DoEvaluate(Frame& frame) const {
  const Value object = object_->Evaluate(frame);
  return GetAttribute(At(frame), object, name_);
}

Value Item::DoEvaluate(Frame& frame) const {
  const Value object = object_->Evaluate(frame);
  const Value key = key_->Evaluate(frame);
  return GetItem(At(frame), object, key);
}

Value Slice::DoEvaluate(Frame& frame) const {
  const Value object = object_->Evaluate(frame);
  const Value begin = EvaluateIf(bounds_.begin, frame);
  const Value end = EvaluateIf(bounds_.end, frame);
  const Value step = EvaluateIf(bounds_.step, frame);
  return GetSlice(At(frame), object, begin, end, step);
}

bool CallArguments::Evaluate(Frame& frame, Arguments* into) const {
  Run& run = frame.run;
  into->positional = EvaluateAll(positional, frame);
  for (const auto& [name, value] : keywords) {
    into->keywords.emplace_back(name, value->Evaluate(frame));
  }
  if (spread != nullptr && !run.failed()) {
    const Value more = spread->Evaluate(frame);
    if (!run.failed() && !IsIterable(more)) {
      run.TypeError(absl::StrCat("Value after * must be an iterable, not ", TypeName(more)));
    }
    for (Value& value : ToVector(run, more)) into->positional.push_back(std::move(value));
  }
  if (spread_keywords != nullptr && !run.failed()) {
    const Value more = spread_keywords->Evaluate(frame);
    if (!run.failed() && !more.IsDict()) {
      run.TypeError(absl::StrCat("argument after ** must be a mapping, not ", TypeName(more)));
    }
    if (run.failed()) return false;
    for (const auto& [key, value] : more.dict().entries()) {
      if (!key.IsString()) run.TypeError("keywords must be strings");
      if (run.failed()) return false;
      into->keywords.emplace_back(key.bytes(), value);
    }
  }
  return !run.failed();
}

Value Call::EvaluateWithCaller(Frame& frame, Value caller) const {
  const Value callee = callee_->Evaluate(frame);
  Arguments arguments;
  if (frame.run.failed() || !arguments_.Evaluate(frame, &arguments)) return Value();
  if (!caller.IsMissing()) arguments.keywords.emplace_back("caller", std::move(caller));
  Run& run = At(frame);
  if (!run.EnterCall()) return Value();
  Value value = CallValue(run, callee, arguments);
  run.LeaveCall();
  return value;
}

Value Filtered::ApplyTo(Frame& frame, const Value& value) const {
  Arguments arguments;
  if (frame.run.failed() || !arguments_.Evaluate(frame, &arguments)) return Value();
  Run& run = At(frame);
  if (filter_ == nullptr) {
    return run.Fail(Error::Kind::kRuntime,
                    absl::StrCat("No filter named ", ReprString(name_), " found."));
  }
  return filter_(run, value, arguments);
}

Value Filtered::DoEvaluate(Frame& frame) const { return ApplyTo(frame, value_->Evaluate(frame)); }

Value Filtered::EvaluateOn(Frame& frame, const Text& written) const {
  const auto* inner = dynamic_cast<const Filtered*>(value_.get());
  return ApplyTo(frame,
                 inner == nullptr ? frame.run.String(written) : inner->EvaluateOn(frame, written));
}

Value Tested::DoEvaluate(Frame& frame) const {
  const Value value = value_->Evaluate(frame);
  Arguments arguments;
  if (frame.run.failed() || !arguments_.Evaluate(frame, &arguments)) return Value();
  Run& run = At(frame);
  if (test_ == nullptr) {
    return run.Fail(Error::Kind::kRuntime,
                    absl::StrCat("No test named ", ReprString(name_), " found."));
  }
  return Value::Bool(test_(run, value, arguments));
}

}  // namespace sluice::jinja
