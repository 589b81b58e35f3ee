// A template as a tree: expressions have values, statements write. Immutable once parsed, then
// thread-safe; what changes while rendering is in the Frame.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/tokenizer/jinja/error.h"
#include "services/tokenizer/jinja/run.h"
#include "services/tokenizer/jinja/scope.h"
#include "services/tokenizer/jinja/value.h"

namespace sluice::jinja {

// Where statements write.
struct Output {
  Text text;
  // What generation blocks wrote; only of the template's own output.
  bool is_whole = false;
  std::vector<TextRange> generations;
};

// What a part of a template is rendered with.
struct Frame {
  Run& run;
  std::shared_ptr<Scope> scope;
  Output* out;
};

// Bounds what is written.
void Write(Frame& frame, const Text& text);

class Expression {
 public:
  explicit Expression(const Place& place) : place_(place) {}
  virtual ~Expression() = default;

  // Missing after a failure.
  Value Evaluate(Frame& frame) const {
    if (!frame.run.Step() || !frame.run.CheckStack()) return Value();
    return DoEvaluate(frame);
  }

  const Place& place() const { return place_; }
  // How deep the tree below is: bounded by the parser.
  int depth() const { return depth_; }
  void set_depth(int depth) { depth_ = depth; }

 protected:
  virtual Value DoEvaluate(Frame& frame) const = 0;
  // Makes this the place of errors.
  Run& At(Frame& frame) const {
    frame.run.set_place(place_);
    return frame.run;
  }

 private:
  const Place place_;
  int depth_ = 1;
};
using ExpressionPtr = std::unique_ptr<const Expression>;

// How a statement ended.
enum class Flow { kNext, kBreak, kContinue };

class Statement {
 public:
  explicit Statement(const Place& place) : place_(place) {}
  virtual ~Statement() = default;

  // kBreak after a failure.
  Flow Execute(Frame& frame) const {
    if (!frame.run.Step() || !frame.run.CheckStack()) return Flow::kBreak;
    const Flow flow = DoExecute(frame);
    return frame.run.failed() ? Flow::kBreak : flow;
  }

 protected:
  virtual Flow DoExecute(Frame& frame) const = 0;
  Run& At(Frame& frame) const {
    frame.run.set_place(place_);
    return frame.run;
  }

 private:
  const Place place_;
};
using Body = std::vector<std::unique_ptr<const Statement>>;

Flow ExecuteBody(const Body& body, Frame& frame);
// What `body` writes, in a scope of its own inside the frame's; `filled` before it runs.
Text Capture(const Body& body, Frame& frame);
Text CaptureIn(const Body& body, Run& run, std::shared_ptr<Scope> scope);

// What values are assigned to: a name, a namespace's attribute, or several of these.
class Target {
 public:
  explicit Target(const Place& place) : place(place) {}
  void Assign(Frame& frame, const Value& value) const;
  // Whether all namespaces that it names are some; an error otherwise.
  bool CheckNamespaces(Frame& frame) const;

  Place place;
  std::string name;
  std::string attribute;  // of the namespace `name`; empty for a variable
  bool is_tuple = false;
  std::vector<Target> parts;  // of a tuple
};

// The arguments of a call, filter or test.
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
  ExpressionPtr spread;           // *args
  ExpressionPtr spread_keywords;  // **kwargs

  // False after a failure.
  bool Evaluate(Frame& frame, Arguments* into) const;
};

}  // namespace sluice::jinja
