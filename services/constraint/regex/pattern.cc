#include "services/constraint/regex/pattern.h"

#include <vector>

#include "absl/status/status.h"
#include "services/constraint/json/message.h"

namespace sluice {
namespace {

using Kind = PatternNode::Kind;

// Assertions look at what follows, so that languages are built from behind: `rest` is all that may
// come after a node up to the end of the text, and what comes back is the node's with it.
class PatternCompiler {
 public:
  explicit PatternCompiler(ExprSpace& space) : space_(space) {}

  // A node without assertions.
  ExprId Plain(const PatternNode& node) {
    switch (node.kind) {
      case Kind::kSet:
        return space_.Set(node.set);
      case Kind::kSequence: {
        ExprId expr = space_.Empty();
        for (size_t i = node.inner.size(); i-- > 0;)
          expr = space_.Concat(Plain(node.inner[i]), expr);
        return expr;
      }
      case Kind::kChoice: {
        std::vector<ExprId> choices;
        for (const PatternNode& inner : node.inner) choices.push_back(Plain(inner));
        return space_.Or(std::move(choices));
      }
      case Kind::kRepeat:
        return space_.Repeat(Plain(node.inner[0]), node.min, node.max);
      default:
        return space_.Nothing();
    }
  }

  // `at_begin`: whether the node stands at the beginning of the text.
  ExprId Before(const PatternNode& node, ExprId rest, bool at_begin) {
    if (!node.has_assertion) return space_.Concat(Plain(node), rest);
    switch (node.kind) {
      case Kind::kBegin:
        return at_begin ? rest : space_.Nothing();
      case Kind::kEnd:
        return space_.IsNullable(rest) ? space_.Empty() : space_.Nothing();
      case Kind::kLook: {
        const ExprId ahead = Before(node.inner[0], space_.AnyText(), at_begin);
        return space_.And({node.negated ? space_.Not(ahead) : ahead, rest});
      }
      case Kind::kChoice: {
        std::vector<ExprId> choices;
        for (const PatternNode& inner : node.inner)
          choices.push_back(Before(inner, rest, at_begin));
        return space_.Or(std::move(choices));
      }
      case Kind::kRepeat:
        return Repeated(node, rest, at_begin);
      default:
        return Sequence(node, 0, rest, at_begin);
    }
  }

  const absl::Status& status() const { return status_; }

 private:
  static bool HasBegin(const PatternNode& node) {
    if (node.kind == Kind::kBegin) return true;
    if (!node.has_assertion) return false;
    for (const PatternNode& inner : node.inner)
      if (HasBegin(inner)) return true;
    return false;
  }

  // The nodes of a sequence from `index` on.
  ExprId Sequence(const PatternNode& node, size_t index, ExprId rest, bool at_begin) {
    if (index == node.inner.size()) return rest;
    const PatternNode& first = node.inner[index];
    bool begin_follows = false;
    for (size_t i = index + 1; i < node.inner.size(); ++i) begin_follows |= HasBegin(node.inner[i]);
    if (!at_begin || !begin_follows)
      return Before(first, Sequence(node, index + 1, rest, at_begin && IsEmpty(first)), at_begin);
    if (first.has_assertion) {
      if (!IsEmpty(first)) Refuse("^ behind another assertion");
      return Before(first, Sequence(node, index + 1, rest, true), true);
    }
    // Either nothing was matched so far, and the rest still begins the text, or something was.
    const ExprId plain = Plain(first);
    const ExprId some = space_.And({plain, space_.AnyTextOfLength(1, ExprSpace::kUnbounded)});
    std::vector<ExprId> ways = {space_.Concat(some, Sequence(node, index + 1, rest, false))};
    if (space_.IsNullable(plain)) ways.push_back(Sequence(node, index + 1, rest, true));
    return space_.Or(std::move(ways));
  }

  // Whether the node matches the empty text alone.
  static bool IsEmpty(const PatternNode& node) {
    if (node.kind == Kind::kBegin || node.kind == Kind::kEnd || node.kind == Kind::kLook)
      return true;
    if (node.kind == Kind::kSet) return false;
    for (const PatternNode& inner : node.inner)
      if (!IsEmpty(inner)) return false;
    return true;
  }

  ExprId Repeated(const PatternNode& node, ExprId rest, bool at_begin) {
    constexpr uint32_t kMaxUnrolled = 8;
    if (node.max > kMaxUnrolled || (node.max > 1 && HasBegin(node))) {
      Refuse("an assertion inside of a repetition");
      return space_.Nothing();
    }
    ExprId expr = rest;
    for (uint32_t i = node.max; i-- > 0;) {
      const ExprId once = Before(node.inner[0], expr, at_begin);
      expr = i < node.min ? once : space_.Or({once, rest});
    }
    return expr;
  }

  void Refuse(std::string_view what) {
    if (status_.ok()) status_ = absl::UnimplementedError(Message(what, " can't be kept"));
  }

  ExprSpace& space_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<ExprId> CompilePattern(std::string_view pattern, PatternMatch match,
                                      ExprSpace& space, const PatternLimits& limits) {
  const auto node = ParsePattern(pattern, limits);
  if (!node.ok()) return node.status();
  PatternCompiler compiler(space);
  const bool search = match == PatternMatch::kSearch;
  const ExprId rest = search ? space.AnyText() : space.Empty();
  ExprId expr = compiler.Before(*node, rest, true);
  if (search) {
    const ExprId later = compiler.Before(*node, rest, false);
    expr = later == expr
               ? space.Concat(space.AnyText(), expr)
               : space.Or(
                     {expr, space.Concat(space.AnyTextOfLength(1, ExprSpace::kUnbounded), later)});
  }
  if (!compiler.status().ok())
    return absl::Status(compiler.status().code(),
                        Message("pattern \"", pattern.substr(0, 80),
                                "\": ", std::string(compiler.status().message())));
  if (space.exhausted())
    return absl::ResourceExhaustedError(
        Message("pattern \"", pattern.substr(0, 80), "\" needs too many states"));
  return expr;
}

}  // namespace sluice
