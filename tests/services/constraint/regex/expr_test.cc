#include "services/constraint/regex/expr.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace sluice {
namespace {

// Membership by the definition of each operation, beside the space's own derivatives.
struct Tree {
  char kind;  // c: a character, . + & ! * as below
  char c = 0;
  std::vector<Tree> inner;
  int min = 0, max = 0;
};

bool Holds(const Tree& tree, const std::string& text) {
  switch (tree.kind) {
    case 'c':
      return text.size() == 1 && text[0] == tree.c;
    case '.':
      for (size_t i = 0; i <= text.size(); ++i)
        if (Holds(tree.inner[0], text.substr(0, i)) && Holds(tree.inner[1], text.substr(i)))
          return true;
      return false;
    case '|':
      return Holds(tree.inner[0], text) || Holds(tree.inner[1], text);
    case '&':
      return Holds(tree.inner[0], text) && Holds(tree.inner[1], text);
    case '!':
      return !Holds(tree.inner[0], text);
    default: {
      if (tree.min == 0 && text.empty()) return true;
      if (tree.max == 0) return false;
      Tree rest = tree;
      rest.min = std::max(0, tree.min - 1);
      rest.max = tree.max - 1;
      for (size_t i = 0; i <= text.size(); ++i) {
        if (i == 0 && rest.min == tree.min) continue;  // would go on for ever
        if (Holds(tree.inner[0], text.substr(0, i)) && Holds(rest, text.substr(i))) return true;
      }
      return false;
    }
  }
}

Tree RandomTree(std::mt19937& random, int depth) {
  const int kind = depth == 0 ? 0 : static_cast<int>(random() % 6);
  switch (kind) {
    case 0:
      return {'c', static_cast<char>('a' + random() % 2)};
    case 4:
      return {'!', 0, {RandomTree(random, depth - 1)}};
    case 5: {
      const int min = static_cast<int>(random() % 3);
      return {'*', 0, {RandomTree(random, depth - 1)}, min, min + static_cast<int>(random() % 3)};
    }
    default:
      return {
          ".|&" [kind - 1], 0, { RandomTree(random, depth - 1), RandomTree(random, depth - 1) }};
  }
}

ExprId Build(const Tree& tree, ExprSpace& space) {
  switch (tree.kind) {
    case 'c':
      return space.Literal(std::string(1, tree.c));
    case '.':
      return space.Concat(Build(tree.inner[0], space), Build(tree.inner[1], space));
    case '|':
      return space.Or({Build(tree.inner[0], space), Build(tree.inner[1], space)});
    case '&':
      return space.And({Build(tree.inner[0], space), Build(tree.inner[1], space)});
    case '!':
      return space.Not(Build(tree.inner[0], space));
    default:
      return space.Repeat(Build(tree.inner[0], space), static_cast<uint32_t>(tree.min),
                          static_cast<uint32_t>(tree.max));
  }
}

TEST(Expr, HoldsWhatItsDefinitionSays) {
  std::mt19937 random(7);
  std::vector<std::string> texts = {""};
  for (size_t i = 0; texts.size() < 31; ++i)
    for (const char c : {'a', 'b'}) texts.push_back(texts[i] + c);
  for (int round = 0; round < 3000; ++round) {
    const Tree tree = RandomTree(random, 4);
    ExprSpace space;
    const ExprId expr = Build(tree, space);
    bool any = false;
    for (const std::string& text : texts) {
      const bool held = Holds(tree, text);
      any |= held;
      ASSERT_EQ(space.Matches(expr, text), held) << "round " << round << " text " << text;
    }
    // What holds a text lives; the other way round, a longer text may be meant.
    if (any) {
      EXPECT_TRUE(space.IsLive(expr));
    }
  }
}

TEST(Expr, SeesThatNothingIsLeft) {
  ExprSpace space;
  const ExprId a = space.Literal("a");
  EXPECT_FALSE(
      space.IsLive(space.And({space.Repeat(a, 0, ExprSpace::kUnbounded), space.Literal("aab")})));
  EXPECT_FALSE(space.IsLive(space.And({a, space.AnyTextOfLength(2, 5)})));
  EXPECT_TRUE(space.IsLive(space.Not(a)));
}

TEST(Expr, EndsInExhaustionNotInMemory) {
  ExprSpace space(ExprLimits{.max_exprs = 2000});
  // The classic of exponential subsets: an a, 30 characters before the end.
  const ExprId any = space.AnyText();
  ExprId expr = space.Concat(any, space.Concat(space.Literal("a"), space.AnyTextOfLength(30, 30)));
  uint32_t seed = 1;
  for (int i = 0; i < 20000 && !space.exhausted(); ++i) {
    const auto arcs = space.Arcs(expr);
    if (arcs.empty()) break;
    seed = seed * 1664525 + 1013904223;
    expr = arcs[(seed >> 16) % arcs.size()].target;
  }
  EXPECT_TRUE(space.exhausted());
}

TEST(Expr, ForgetsWhatCameSince) {
  ExprSpace space;
  const ExprId expr = space.Literal("abc");
  const size_t size = space.size();
  EXPECT_TRUE(space.Matches(expr, "abc"));
  space.Literal("something else");
  space.ShrinkTo(size);
  EXPECT_EQ(space.size(), size);
  EXPECT_TRUE(space.Matches(expr, "abc"));
  EXPECT_FALSE(space.Matches(expr, "abd"));
}

}  // namespace
}  // namespace sluice
