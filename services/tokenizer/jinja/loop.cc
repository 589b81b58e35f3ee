#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/compare.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/operators.h"
#include "services/tokenizer/jinja/statements.h"

namespace sluice::jinja {
namespace {

// The variable `loop`.
class LoopContext : public Native {
 public:
  LoopContext(const For& statement, std::shared_ptr<Scope> outer, std::shared_ptr<Iterator> items,
              int depth, bool is_recursive)
      : statement_(statement),
        outer_(std::move(outer)),
        items_(std::move(items)),
        depth_(depth),
        is_recursive_(is_recursive) {}

  // Goes to the next item; nullopt at the end.
  std::optional<Value> Advance(Run& run) {
    std::optional<Value> item = Peek(run);
    if (!item.has_value()) return std::nullopt;
    ahead_.pop_front();
    before_ = std::exchange(current_, *item);
    ++index0_;
    return item;
  }

  std::string TypeName() const override { return "LoopContext"; }
  bool IsCallable() const override { return true; }
  std::optional<Int> Length(Run& run) override { return Size(run); }
  std::optional<Value> Attribute(Run& run, std::string_view name) override;
  Text Repr(Run& run) override {
    return Text(
        absl::StrCat("<LoopContext ", IntToString(index0_ + 1), "/", IntToString(Size(run)), ">"));
  }

  // The same loop over other items.
  Value Call(Run& run, const Arguments& arguments) override {
    if (!is_recursive_) {
      return run.TypeError("The loop must have the 'recursive' marker to be called recursively.");
    }
    if (arguments.positional.size() != 1 || !arguments.keywords.empty()) {
      return run.TypeError("a loop is called with what to iterate over");
    }
    Output output;
    Frame frame{run, outer_, &output};
    statement_.Loop(frame, arguments.positional[0], depth_ + 1);
    return run.String(std::move(output.text));
  }

  Value Cycled(Run& run, const Arguments& arguments) const {
    const auto size = static_cast<Int>(arguments.positional.size());
    if (size == 0) return run.TypeError("no items for cycling given");
    return arguments.positional[static_cast<size_t>(index0_ % size)];
  }

  // Whether the values differ from the last time.
  Value Changed(Run& run, const Arguments& arguments) {
    Value values = run.Tuple(arguments.positional);
    if (run.failed()) return Value();
    const bool changed = last_values_.IsMissing() || !Equal(run, last_values_, values);
    last_values_ = std::move(values);
    return Value::Bool(changed);
  }

 private:
  std::optional<Value> Peek(Run& run) {
    if (ahead_.empty()) {
      std::optional<Value> item = items_->Next(run);
      if (!item.has_value()) return std::nullopt;
      ahead_.push_back(*std::move(item));
    }
    return ahead_.front();
  }

  // How many items there are in all: without looking, or by fetching them.
  Int Size(Run& run) {
    const Int seen = index0_ + 1 + static_cast<Int>(ahead_.size());
    if (const auto remaining = items_->Remaining(); remaining.has_value()) return seen + *remaining;
    while (std::optional<Value> item = items_->Next(run)) {
      if (!run.CheckMemory(ahead_.size() * sizeof(Value))) break;
      ahead_.push_back(*std::move(item));
    }
    return index0_ + 1 + static_cast<Int>(ahead_.size());
  }

  const For& statement_;
  const std::shared_ptr<Scope> outer_;
  const std::shared_ptr<Iterator> items_;
  const int depth_;
  const bool is_recursive_;
  std::deque<Value> ahead_;
  Int index0_ = -1;
  Value before_;
  Value current_;
  Value last_values_;
};

// loop.cycle and loop.changed.
class LoopMethod : public Native {
 public:
  LoopMethod(std::shared_ptr<LoopContext> loop, bool is_cycle)
      : loop_(std::move(loop)), is_cycle_(is_cycle) {}
  std::string TypeName() const override { return "method"; }
  bool IsCallable() const override { return true; }
  Value Call(Run& run, const Arguments& arguments) override {
    return is_cycle_ ? loop_->Cycled(run, arguments) : loop_->Changed(run, arguments);
  }

 private:
  const std::shared_ptr<LoopContext> loop_;
  const bool is_cycle_;
};

// The items for which a loop's condition holds.
class ChosenItems : public Iterator {
 public:
  ChosenItems(std::shared_ptr<Iterator> items, const Target& target, const Expression& test,
              std::shared_ptr<Scope> outer)
      : items_(std::move(items)), target_(target), test_(test), outer_(std::move(outer)) {}

  std::optional<Value> Next(Run& run) override {
    while (std::optional<Value> item = items_->Next(run)) {
      Frame frame{run, std::make_shared<Scope>(outer_), nullptr};
      target_.Assign(frame, *item);
      const Value chosen = test_.Evaluate(frame);
      if (run.failed()) return std::nullopt;
      if (IsTrue(run, chosen)) return item;
    }
    return std::nullopt;
  }

 private:
  const std::shared_ptr<Iterator> items_;
  const Target& target_;
  const Expression& test_;
  const std::shared_ptr<Scope> outer_;
};

std::optional<Value> LoopContext::Attribute(Run& run, std::string_view name) {
  if (name == "index") return Value::Integer(index0_ + 1);
  if (name == "index0") return Value::Integer(index0_);
  if (name == "first") return Value::Bool(index0_ == 0);
  if (name == "last") return Value::Bool(!Peek(run).has_value());
  if (name == "length") return Value::Integer(Size(run));
  if (name == "revindex") return Value::Integer(Size(run) - index0_);
  if (name == "revindex0") return Value::Integer(Size(run) - index0_ - 1);
  if (name == "depth") return Value::Integer(depth_ + 1);
  if (name == "depth0") return Value::Integer(depth_);
  if (name == "previtem") {
    return index0_ == 0 ? run.Undefined("there is no previous item") : before_;
  }
  if (name == "nextitem") {
    const std::optional<Value> next = Peek(run);
    return next.has_value() ? *next : run.Undefined("there is no next item");
  }
  return std::nullopt;
}

}  // namespace

// The methods refer to the loop, which its own methods cannot do: see Loop.
class LoopVariable : public Native {
 public:
  explicit LoopVariable(std::shared_ptr<LoopContext> loop) : loop_(std::move(loop)) {}
  std::string TypeName() const override { return loop_->TypeName(); }
  bool IsCallable() const override { return true; }
  Value Call(Run& run, const Arguments& arguments) override { return loop_->Call(run, arguments); }
  std::optional<Int> Length(Run& run) override { return loop_->Length(run); }
  Text Repr(Run& run) override { return loop_->Repr(run); }
  std::optional<Value> Attribute(Run& run, std::string_view name) override {
    if (name == "cycle" || name == "changed") {
      return run.MakeNative<LoopMethod>(loop_->depth(), loop_, name == "cycle");
    }
    return loop_->Attribute(run, name);
  }

 private:
  const std::shared_ptr<LoopContext> loop_;
};

std::shared_ptr<Iterator> For::Chosen(Frame& frame, const Value& items) const {
  const std::shared_ptr<Iterator> all = Iterate(frame.run, items);
  if (all == nullptr || parts_.test == nullptr) return all;
  return frame.run.Make<ChosenItems>(items.depth(), 0, all, parts_.target, *parts_.test,
                                     frame.scope);
}

void For::Loop(Frame& frame, const Value& items, int depth) const {
  Run& run = At(frame);
  if (run.failed()) return;
  std::shared_ptr<Iterator> chosen = Chosen(frame, items);
  if (chosen == nullptr) return;
  const auto loop = run.Make<LoopContext>(items.depth() + 1, 0, *this, frame.scope,
                                          std::move(chosen), depth, parts_.is_recursive);
  if (loop == nullptr) return;
  const Value variable = run.MakeNative<LoopVariable>(loop->depth(), loop);
  bool is_complete = false;  // one pass through the body
  Frame inner{run, nullptr, frame.out};
  while (const std::optional<Value> item = loop->Advance(run)) {
    const bool is_free = inner.scope != nullptr && inner.scope.use_count() == 1;
    if (is_free) {
      inner.scope->variables.clear();
    } else {
      inner.scope = std::make_shared<Scope>(frame.scope);
    }
    inner.scope->Set("loop", variable);
    parts_.target.Assign(inner, *item);
    if (run.failed()) return;
    const Flow flow = ExecuteBody(parts_.body, inner);
    if (flow == Flow::kBreak) break;
    is_complete = is_complete || flow == Flow::kNext;
  }
  if (is_complete || run.failed()) return;
  inner.scope = std::make_shared<Scope>(frame.scope);
  ExecuteBody(parts_.otherwise, inner);
}

Flow For::DoExecute(Frame& frame) const {
  const Value items = parts_.items->Evaluate(frame);
  if (frame.run.failed()) return Flow::kBreak;
  if (!parts_.is_recursive) {
    Loop(frame, items, 0);
    return Flow::kNext;
  }
  Output output;
  Frame inner{frame.run, frame.scope, &output};
  Loop(inner, items, 0);
  Write(frame, output.text);
  return Flow::kNext;
}

}  // namespace sluice::jinja
