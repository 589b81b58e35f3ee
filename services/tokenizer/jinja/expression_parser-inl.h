// What the files of ExpressionParser share: how deep expressions are, and how one is made around others.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/tokenizer/jinja/expression_parser.h"

namespace sluice::jinja {

inline int DepthOf(const ExpressionPtr& expression) {
  return expression == nullptr ? 0 : expression->depth();
}

inline int DepthOf(const std::vector<ExpressionPtr>& expressions) {
  int depth = 0;
  for (const ExpressionPtr& expression : expressions) depth = std::max(depth, DepthOf(expression));
  return depth;
}

inline int DepthOf(const CallArguments& arguments) {
  int depth = std::max({DepthOf(arguments.positional), DepthOf(arguments.spread),
                        DepthOf(arguments.spread_keywords)});
  for (const auto& keyword : arguments.keywords) depth = std::max(depth, DepthOf(keyword.second));
  return depth;
}

// The names that Jinja reads as constants.
inline std::optional<Value> NamedConstant(const std::string& name) {
  if (name == "true" || name == "True") return Value::Bool(true);
  if (name == "false" || name == "False") return Value::Bool(false);
  if (name == "none" || name == "None") return Value::None();
  return std::nullopt;
}

template <typename T, typename... Args>
std::unique_ptr<T> ExpressionParser::Make(const Place& place, int inner_depth, Args&&... args) {
  CheckDepth(inner_depth + 1);
  auto made = std::make_unique<T>(place, std::forward<Args>(args)...);
  made->set_depth(inner_depth + 1);
  return made;
}

}  // namespace sluice::jinja
