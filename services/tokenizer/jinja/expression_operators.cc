// Operators, by their precedence: those that bind least first.
#include <algorithm>
#include <array>
#include <utility>

#include "services/tokenizer/jinja/expression_parser-inl.h"

namespace sluice::jinja {

ExpressionPtr ExpressionParser::ParseConditional() {
  if (!Enter()) return nullptr;
  const size_t num_unknown = unknown_.size();
  const Place place = tokens_.current().place;
  ExpressionPtr expression = ParseOr();
  while (tokens_.SkipName("if")) {
    ExpressionPtr test = ParseOr();
    ExpressionPtr otherwise = tokens_.SkipName("else") ? ParseConditional() : nullptr;
    const int depth = std::max({DepthOf(expression), DepthOf(test), DepthOf(otherwise)});
    expression = Make<Conditional>(place, depth, std::move(test), std::move(expression),
                                   std::move(otherwise));
    unknown_.resize(num_unknown);
  }
  Leave();
  return expression;
}

ExpressionPtr ExpressionParser::ParseOr() {
  const Place place = tokens_.current().place;
  ExpressionPtr left = ParseAnd();
  while (tokens_.SkipName("or")) {
    ExpressionPtr right = ParseAnd();
    const int depth = std::max(DepthOf(left), DepthOf(right));
    left = Make<Logic>(place, depth, /*is_and=*/false, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseAnd() {
  const Place place = tokens_.current().place;
  ExpressionPtr left = ParseNot();
  while (tokens_.SkipName("and")) {
    ExpressionPtr right = ParseNot();
    const int depth = std::max(DepthOf(left), DepthOf(right));
    left = Make<Logic>(place, depth, /*is_and=*/true, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseNot() {
  const Place place = tokens_.current().place;
  if (!tokens_.SkipName("not")) return ParseComparison();
  if (!Enter()) return nullptr;
  ExpressionPtr operand = ParseNot();
  Leave();
  const int depth = DepthOf(operand);
  return Make<Unary>(place, depth, UnaryOperator::kNot, std::move(operand));
}

ExpressionPtr ExpressionParser::ParseComparison() {
  constexpr std::array<std::string_view, 6> kSymbols = {"==", "!=", "<", "<=", ">", ">="};
  const Place place = tokens_.current().place;
  ExpressionPtr first = ParseSum();
  std::vector<Comparison::Link> links;
  int depth = DepthOf(first);
  while (!tokens_.failed()) {
    const auto is_current = [&](std::string_view symbol) { return tokens_.IsOperator(symbol); };
    const auto symbol = std::find_if(kSymbols.begin(), kSymbols.end(), is_current);
    std::string operation;
    if (symbol != kSymbols.end()) {
      operation = std::string(*symbol);
      tokens_.Take();
    } else if (tokens_.SkipName("in")) {
      operation = "in";
    } else if (tokens_.IsName("not") && tokens_.NextIsName("in")) {
      operation = "not in";
      tokens_.Take();
      tokens_.Take();
    } else {
      break;
    }
    links.push_back({std::move(operation), ParseSum()});
    depth = std::max(depth, DepthOf(links.back().operand));
  }
  if (links.empty()) return first;
  return Make<Comparison>(place, depth, std::move(first), std::move(links));
}

ExpressionPtr ExpressionParser::ParseSum() {
  const Place place = tokens_.current().place;
  ExpressionPtr left = ParseConcatenation();
  while (tokens_.IsOperator("+") || tokens_.IsOperator("-")) {
    const auto operation =
        tokens_.Take().text == "+" ? BinaryOperator::kAdd : BinaryOperator::kSubtract;
    ExpressionPtr right = ParseConcatenation();
    const int depth = std::max(DepthOf(left), DepthOf(right));
    left = Make<Binary>(place, depth, operation, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseConcatenation() {
  const Place place = tokens_.current().place;
  std::vector<ExpressionPtr> parts;
  parts.push_back(ParseProduct());
  while (tokens_.SkipOperator("~")) parts.push_back(ParseProduct());
  if (parts.size() == 1) return std::move(parts.front());
  const int depth = DepthOf(parts);
  return Make<Concatenation>(place, depth, std::move(parts));
}

ExpressionPtr ExpressionParser::ParseProduct() {
  const Place place = tokens_.current().place;
  ExpressionPtr left = ParsePower();
  while (tokens_.IsOperator("*") || tokens_.IsOperator("/") || tokens_.IsOperator("//") ||
         tokens_.IsOperator("%")) {
    const std::string symbol = tokens_.Take().text;
    const auto operation = symbol == "*"    ? BinaryOperator::kMultiply
                           : symbol == "/"  ? BinaryOperator::kDivide
                           : symbol == "//" ? BinaryOperator::kFloorDivide
                                            : BinaryOperator::kModulo;
    ExpressionPtr right = ParsePower();
    const int depth = std::max(DepthOf(left), DepthOf(right));
    left = Make<Binary>(place, depth, operation, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr ExpressionParser::ParsePower() {
  const Place place = tokens_.current().place;
  ExpressionPtr left = ParseUnary(true);
  while (tokens_.SkipOperator("**")) {
    ExpressionPtr right = ParseUnary(true);
    const int depth = std::max(DepthOf(left), DepthOf(right));
    left = Make<Binary>(place, depth, BinaryOperator::kPower, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseUnary(bool with_filters) {
  if (!Enter()) return nullptr;
  const Place place = tokens_.current().place;
  ExpressionPtr expression;
  if (tokens_.IsOperator("-") || tokens_.IsOperator("+")) {
    const auto operation =
        tokens_.Take().text == "-" ? UnaryOperator::kNegate : UnaryOperator::kPlus;
    ExpressionPtr operand = ParseUnary(false);
    const int depth = DepthOf(operand);
    expression = Make<Unary>(place, depth, operation, std::move(operand));
  } else {
    expression = ParsePrimary();
  }
  expression = ParsePostfix(std::move(expression));
  if (with_filters) expression = ParseFiltersAndTests(std::move(expression));
  Leave();
  return expression;
}

}  // namespace sluice::jinja
