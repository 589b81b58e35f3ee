// The kinds of expression.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/tokenizer/jinja/ast.h"
#include "services/tokenizer/jinja/filters.h"
#include "services/tokenizer/jinja/operators.h"
#include "services/tokenizer/jinja/tests.h"

namespace sluice::jinja {

class Literal : public Expression {
 public:
  Literal(const Place& place, Value value) : Expression(place), value_(std::move(value)) {}

 private:
  Value DoEvaluate(Frame&) const override { return value_; }
  const Value value_;
};

class Name : public Expression {
 public:
  Name(const Place& place, std::string name) : Expression(place), name_(std::move(name)) {}
  const std::string& name() const { return name_; }

 private:
  Value DoEvaluate(Frame& frame) const override;
  const std::string name_;
};

// A list or a tuple.
class SequenceLiteral : public Expression {
 public:
  SequenceLiteral(const Place& place, bool is_tuple, std::vector<ExpressionPtr> items)
      : Expression(place), is_tuple_(is_tuple), items_(std::move(items)) {}

 private:
  Value DoEvaluate(Frame& frame) const override;
  const bool is_tuple_;
  const std::vector<ExpressionPtr> items_;
};

class DictLiteral : public Expression {
 public:
  using Pairs = std::vector<std::pair<ExpressionPtr, ExpressionPtr>>;
  DictLiteral(const Place& place, Pairs pairs) : Expression(place), pairs_(std::move(pairs)) {}

 private:
  Value DoEvaluate(Frame& frame) const override;
  const Pairs pairs_;
};

enum class UnaryOperator { kNot, kNegate, kPlus };

class Unary : public Expression {
 public:
  Unary(const Place& place, UnaryOperator operation, ExpressionPtr operand)
      : Expression(place), operation_(operation), operand_(std::move(operand)) {}

 private:
  Value DoEvaluate(Frame& frame) const override;
  const UnaryOperator operation_;
  const ExpressionPtr operand_;
};

class Binary : public Expression {
 public:
  Binary(const Place& place, BinaryOperator operation, ExpressionPtr left, ExpressionPtr right)
      : Expression(place),
        operation_(operation),
        left_(std::move(left)),
        right_(std::move(right)) {}

 private:
  Value DoEvaluate(Frame& frame) const override;
  const BinaryOperator operation_;
  const ExpressionPtr left_;
  const ExpressionPtr right_;
};

// `and` and `or`: one of the operands.
class Logic : public Expression {
 public:
  Logic(const Place& place, bool is_and, ExpressionPtr left, ExpressionPtr right)
      : Expression(place), is_and_(is_and), left_(std::move(left)), right_(std::move(right)) {}

 private:
  Value DoEvaluate(Frame& frame) const override;
  const bool is_and_;
  const ExpressionPtr left_;
  const ExpressionPtr right_;
};

// a < b < c: true while each holds.
class Comparison : public Expression {
 public:
  struct Link {
    std::string operation;  // "==", "in", "not in", ...
    ExpressionPtr operand;
  };
  Comparison(const Place& place, ExpressionPtr first, std::vector<Link> links)
      : Expression(place), first_(std::move(first)), links_(std::move(links)) {}

 private:
  Value DoEvaluate(Frame& frame) const override;
  const ExpressionPtr first_;
  const std::vector<Link> links_;
};

// a ~ b ~ c
class Concatenation : public Expression {
 public:
  Concatenation(const Place& place, std::vector<ExpressionPtr> parts)
      : Expression(place), parts_(std::move(parts)) {}

 private:
  Value DoEvaluate(Frame& frame) const override;
  const std::vector<ExpressionPtr> parts_;
};

class Conditional : public Expression {
 public:
  // `otherwise` may be nullptr.
  Conditional(const Place& place, ExpressionPtr test, ExpressionPtr then, ExpressionPtr otherwise)
      : Expression(place),
        test_(std::move(test)),
        then_(std::move(then)),
        otherwise_(std::move(otherwise)) {}

 private:
  Value DoEvaluate(Frame& frame) const override;
  const ExpressionPtr test_;
  const ExpressionPtr then_;
  const ExpressionPtr otherwise_;
};

class Attribute : public Expression {
 public:
  Attribute(const Place& place, ExpressionPtr object, std::string name)
      : Expression(place), object_(std::move(object)), name_(std::move(name)) {}

 private:
  Value DoEvaluate(Frame& frame) const override;
  const ExpressionPtr object_;
  const std::string name_;
};

class Item : public Expression {
 public:
  Item(const Place& place, ExpressionPtr object, ExpressionPtr key)
      : Expression(place), object_(std::move(object)), key_(std::move(key)) {}

 private:
  Value DoEvaluate(Frame& frame) const override;
  const ExpressionPtr object_;
  const ExpressionPtr key_;
};

class Slice : public Expression {
 public:
  // Any of the three may be nullptr.
  struct Bounds {
    ExpressionPtr begin, end, step;
  };
  Slice(const Place& place, ExpressionPtr object, Bounds bounds)
      : Expression(place), object_(std::move(object)), bounds_(std::move(bounds)) {}

 private:
  Value DoEvaluate(Frame& frame) const override;
  const ExpressionPtr object_;
  const Bounds bounds_;
};

class Call : public Expression {
 public:
  Call(const Place& place, ExpressionPtr callee, CallArguments arguments)
      : Expression(place), callee_(std::move(callee)), arguments_(std::move(arguments)) {}

  // Hands the macro of a call block along.
  Value EvaluateWithCaller(Frame& frame, Value caller) const;

 private:
  Value DoEvaluate(Frame& frame) const override { return EvaluateWithCaller(frame, Value()); }
  const ExpressionPtr callee_;
  const CallArguments arguments_;
};

// value|filter(...)
class Filtered : public Expression {
 public:
  // `filter` may be nullptr: an error then where it comes to be called. `value` is nullptr where
  // the filter takes what a block writes.
  Filtered(const Place& place, ExpressionPtr value, std::string name, Filter filter,
           CallArguments arguments)
      : Expression(place),
        value_(std::move(value)),
        name_(std::move(name)),
        filter_(filter),
        arguments_(std::move(arguments)) {}

  // Filters what a block wrote.
  Value EvaluateOn(Frame& frame, const Text& written) const;

 private:
  Value DoEvaluate(Frame& frame) const override;
  Value ApplyTo(Frame& frame, const Value& value) const;
  const ExpressionPtr value_;
  const std::string name_;
  const Filter filter_;
  const CallArguments arguments_;
};

// value is test(...)
class Tested : public Expression {
 public:
  Tested(const Place& place, ExpressionPtr value, std::string name, Test test,
         CallArguments arguments)
      : Expression(place),
        value_(std::move(value)),
        name_(std::move(name)),
        test_(test),
        arguments_(std::move(arguments)) {}

 private:
  Value DoEvaluate(Frame& frame) const override;
  const ExpressionPtr value_;
  const std::string name_;
  const Test test_;
  const CallArguments arguments_;
};

}  // namespace sluice::jinja
