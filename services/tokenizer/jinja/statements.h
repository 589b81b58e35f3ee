// The kinds of statement.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/tokenizer/jinja/ast.h"
#include "services/tokenizer/jinja/expressions.h"

namespace sluice::jinja {

class WriteText : public Statement {
 public:
  WriteText(const Place& place, std::string text) : Statement(place), text_(std::move(text)) {}

 private:
  Flow DoExecute(Frame& frame) const override;
  const Text text_;
};

class WriteValue : public Statement {
 public:
  WriteValue(const Place& place, ExpressionPtr value)
      : Statement(place), value_(std::move(value)) {}

 private:
  Flow DoExecute(Frame& frame) const override;
  const ExpressionPtr value_;
};

class If : public Statement {
 public:
  struct Branch {
    ExpressionPtr test;  // nullptr for else
    Body body;
  };
  If(const Place& place, std::vector<Branch> branches)
      : Statement(place), branches_(std::move(branches)) {}

 private:
  Flow DoExecute(Frame& frame) const override;
  const std::vector<Branch> branches_;
};

class For : public Statement {
 public:
  struct Parts {
    Target target;
    ExpressionPtr items;
    ExpressionPtr test;  // nullptr for all items
    Body body;
    Body otherwise;  // where there are no items
    bool is_recursive = false;
  };
  For(const Place& place, Parts parts) : Statement(place), parts_(std::move(parts)) {}

  // The loop over `items`, `depth` loops of this statement inside one another.
  void Loop(Frame& frame, const Value& items, int depth) const;

 private:
  Flow DoExecute(Frame& frame) const override;
  std::shared_ptr<Iterator> Chosen(Frame& frame, const Value& items) const;
  const Parts parts_;
};

class Set : public Statement {
 public:
  Set(const Place& place, Target target, ExpressionPtr value)
      : Statement(place), target_(std::move(target)), value_(std::move(value)) {}

 private:
  Flow DoExecute(Frame& frame) const override;
  const Target target_;
  const ExpressionPtr value_;
};

class SetBlock : public Statement {
 public:
  // `filter` may be nullptr.
  SetBlock(const Place& place, Target target, std::unique_ptr<const Filtered> filter, Body body)
      : Statement(place),
        target_(std::move(target)),
        filter_(std::move(filter)),
        body_(std::move(body)) {}

 private:
  Flow DoExecute(Frame& frame) const override;
  const Target target_;
  const std::unique_ptr<const Filtered> filter_;
  const Body body_;
};

class FilterBlock : public Statement {
 public:
  FilterBlock(const Place& place, std::unique_ptr<const Filtered> filter, Body body)
      : Statement(place), filter_(std::move(filter)), body_(std::move(body)) {}

 private:
  Flow DoExecute(Frame& frame) const override;
  const std::unique_ptr<const Filtered> filter_;
  const Body body_;
};

// A scope of its own, with variables from outside: `with`, and without any `block` and
// `autoescape`.
class With : public Statement {
 public:
  struct Variable {
    Target target;
    ExpressionPtr value;
  };
  With(const Place& place, std::vector<Variable> variables, Body body)
      : Statement(place), variables_(std::move(variables)), body_(std::move(body)) {}

 private:
  Flow DoExecute(Frame& frame) const override;
  const std::vector<Variable> variables_;
  const Body body_;
};

// What a macro and a call block have in common. Borrowed by the macros made of it.
struct MacroCode {
  struct Parameter {
    std::string name;
    ExpressionPtr otherwise;  // nullptr without a default
  };
  std::string name;  // empty for a call block's
  std::vector<Parameter> parameters;
  Body body;
  // Which of the special variables the body reads.
  bool uses_caller = false;
  bool uses_arguments = false;  // varargs
  bool uses_keywords = false;   // kwargs
};

class DefineMacro : public Statement {
 public:
  DefineMacro(const Place& place, MacroCode code) : Statement(place), code_(std::move(code)) {}

 private:
  Flow DoExecute(Frame& frame) const override;
  const MacroCode code_;
};

class CallBlock : public Statement {
 public:
  CallBlock(const Place& place, MacroCode code, std::unique_ptr<const Call> call)
      : Statement(place), code_(std::move(code)), call_(std::move(call)) {}

 private:
  Flow DoExecute(Frame& frame) const override;
  const MacroCode code_;
  const std::unique_ptr<const Call> call_;
};

// What the assistant says: its place in the output is kept.
class Generation : public Statement {
 public:
  Generation(const Place& place, Body body) : Statement(place), body_(std::move(body)) {}

 private:
  Flow DoExecute(Frame& frame) const override;
  const Body body_;
};

class Jump : public Statement {
 public:
  Jump(const Place& place, Flow flow) : Statement(place), flow_(flow) {}

 private:
  Flow DoExecute(Frame&) const override { return flow_; }
  const Flow flow_;
};

// include, import, extends: there are no other templates to load.
class Load : public Statement {
 public:
  explicit Load(const Place& place) : Statement(place) {}

 private:
  Flow DoExecute(Frame& frame) const override;
};

}  // namespace sluice::jinja
