// What follows an expression: members, calls, filters and tests.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/expression_parser-inl.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {

namespace {

using Type = Token::Type;

}  // namespace

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr expression) {
  while (!tokens_.failed()) {
    if (tokens_.IsOperator(".") || tokens_.IsOperator("[")) {
      expression = ParseSubscript(std::move(expression));
    } else if (tokens_.IsOperator("(")) {
      expression = ParseCall(std::move(expression));
    } else {
      break;
    }
  }
  return expression;
}

ExpressionPtr ExpressionParser::ParseFiltersAndTests(ExpressionPtr expression) {
  while (!tokens_.failed()) {
    if (tokens_.SkipOperator("|")) {
      expression = ParseFilter(std::move(expression));
    } else if (tokens_.IsName("is")) {
      expression = ParseTest(std::move(expression));
    } else if (tokens_.IsOperator("(")) {
      expression = ParseCall(std::move(expression));
    } else {
      break;
    }
  }
  return expression;
}

ExpressionPtr ExpressionParser::ParseDot(ExpressionPtr object, const Place& place) {
  const Token token = tokens_.current();
  const int depth = DepthOf(object);
  if (token.type == Type::kName) {
    return Make<Attribute>(place, depth, std::move(object), tokens_.Take().text);
  }
  if (token.type != Type::kInteger) {
    tokens_.Fail("expected name or number");
    return nullptr;
  }
  tokens_.Take();
  return Make<Item>(place, depth, std::move(object), Make<Literal>(token.place, 0, token.number));
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr object) {
  const Token token = tokens_.Take();
  if (token.text == ".") return ParseDot(std::move(object), token.place);
  const auto ends = [&] { return tokens_.IsOperator("]") || tokens_.IsOperator(","); };
  ExpressionPtr first = tokens_.IsOperator(":") ? nullptr : Parse();
  if (tokens_.failed()) return nullptr;
  if (tokens_.SkipOperator(":")) {
    Slice::Bounds bounds{std::move(first), nullptr, nullptr};
    if (!ends() && !tokens_.IsOperator(":")) bounds.end = Parse();
    if (tokens_.SkipOperator(":") && !ends()) bounds.step = Parse();
    tokens_.ExpectOperator("]");
    const int depth = std::max(
        {DepthOf(object), DepthOf(bounds.begin), DepthOf(bounds.end), DepthOf(bounds.step)});
    return Make<Slice>(token.place, depth, std::move(object), std::move(bounds));
  }
  if (tokens_.IsOperator(",")) {  // a tuple for the key
    std::vector<ExpressionPtr> items;
    items.push_back(std::move(first));
    while (tokens_.SkipOperator(",") && !tokens_.IsOperator("]")) items.push_back(Parse());
    const int depth = DepthOf(items);
    first = Make<SequenceLiteral>(token.place, depth, /*is_tuple=*/true, std::move(items));
  }
  tokens_.ExpectOperator("]");
  const int depth = std::max(DepthOf(object), DepthOf(first));
  return Make<Item>(token.place, depth, std::move(object), std::move(first));
}

CallArguments ExpressionParser::ParseArguments() {
  CallArguments arguments;
  const Place place = tokens_.current().place;
  const auto ensure = [&](bool is_fine) {
    if (!is_fine) tokens_.Fail("invalid syntax for function call expression", place);
  };
  tokens_.ExpectOperator("(");
  bool is_first = true;
  while (!tokens_.failed() && !tokens_.IsOperator(")")) {
    if (!is_first) tokens_.ExpectOperator(",");
    is_first = false;
    if (tokens_.IsOperator(")")) break;
    const bool is_keyword = tokens_.Is(Type::kName) && tokens_.next().type == Type::kOperator &&
                            tokens_.next().text == "=";
    if (tokens_.SkipOperator("*")) {
      ensure(arguments.spread == nullptr && arguments.spread_keywords == nullptr);
      arguments.spread = Parse();
    } else if (tokens_.SkipOperator("**")) {
      ensure(arguments.spread_keywords == nullptr);
      arguments.spread_keywords = Parse();
    } else if (is_keyword) {
      ensure(arguments.spread_keywords == nullptr);
      const Token name = tokens_.Take();
      tokens_.Take();
      const auto is_same = [&](const auto& keyword) { return keyword.first == name.text; };
      if (std::any_of(arguments.keywords.begin(), arguments.keywords.end(), is_same)) {
        tokens_.Fail(absl::StrCat("keyword argument repeated: ", name.text), name.place);
      }
      arguments.keywords.emplace_back(name.text, Parse());
    } else {
      ensure(arguments.spread == nullptr && arguments.spread_keywords == nullptr &&
             arguments.keywords.empty());
      arguments.positional.push_back(Parse());
    }
  }
  tokens_.ExpectOperator(")");
  return arguments;
}

ExpressionPtr ExpressionParser::ParseCall(ExpressionPtr callee) {
  const Place place = tokens_.current().place;
  CallArguments arguments = ParseArguments();
  const int depth = std::max(DepthOf(callee), DepthOf(arguments));
  return Make<Call>(place, depth, std::move(callee), std::move(arguments));
}

std::unique_ptr<const Call> ExpressionParser::ParseCallExpression() {
  const Place place = tokens_.current().place;
  ExpressionPtr expression = Parse();
  if (tokens_.failed()) return nullptr;
  if (dynamic_cast<const Call*>(expression.get()) == nullptr) {
    tokens_.Fail("expected call", place);
    return nullptr;
  }
  return std::unique_ptr<const Call>(static_cast<const Call*>(expression.release()));
}

std::string ExpressionParser::ParseDottedName() {
  std::string name = tokens_.ExpectName();
  while (tokens_.SkipOperator(".")) absl::StrAppend(&name, ".", tokens_.ExpectName());
  return name;
}

std::unique_ptr<Filtered> ExpressionParser::ParseFilter(ExpressionPtr value) {
  const Place place = tokens_.current().place;
  const std::string name = ParseDottedName();
  CallArguments arguments;
  if (tokens_.IsOperator("(")) arguments = ParseArguments();
  const Filter filter = FindFilter(name);
  if (filter == nullptr) NoteUnknown("filter", name, place);
  const int depth = std::max(DepthOf(value), DepthOf(arguments));
  return Make<Filtered>(place, depth, std::move(value), name, filter, std::move(arguments));
}

std::unique_ptr<const Filtered> ExpressionParser::ParseFilters(bool start) {
  std::unique_ptr<Filtered> filter;
  while (!tokens_.failed() && (start || tokens_.SkipOperator("|"))) {
    start = false;
    filter = ParseFilter(std::move(filter));
  }
  return filter;
}

ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr value) {
  const Place place = tokens_.Take().place;
  const bool is_negated = tokens_.SkipName("not");
  const std::string name = ParseDottedName();
  const Token& next = tokens_.current();
  CallArguments arguments;
  const bool begins_operand = next.type == Type::kName || next.type == Type::kString ||
                              next.type == Type::kInteger || next.type == Type::kFloat ||
                              tokens_.IsOperator("[") || tokens_.IsOperator("{");
  if (tokens_.IsOperator("(")) {
    arguments = ParseArguments();
  } else if (tokens_.IsName("is")) {
    tokens_.Fail("You cannot chain multiple tests with is");
  } else if (begins_operand && !tokens_.IsName("else") && !tokens_.IsName("or") &&
             !tokens_.IsName("and")) {
    arguments.positional.push_back(ParsePostfix(ParsePrimary()));
  }
  const Test test = FindTest(name);
  if (test == nullptr) NoteUnknown("test", name, place);
  const int depth = std::max(DepthOf(value), DepthOf(arguments));
  ExpressionPtr tested =
      Make<Tested>(place, depth, std::move(value), name, test, std::move(arguments));
  if (!is_negated) return tested;
  return Make<Unary>(place, depth + 1, UnaryOperator::kNot, std::move(tested));
}

}  // namespace sluice::jinja
