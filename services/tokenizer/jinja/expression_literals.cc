// What an expression begins with: names, literals, parentheses.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/expression_parser-inl.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {

namespace {

using Type = Token::Type;

}  // namespace

ExpressionPtr ExpressionParser::ParsePrimary() {
  const Token& token = tokens_.current();
  const Place place = token.place;
  if (token.type == Type::kName) return ParseName();
  if (token.type == Type::kString) return ParseStrings();
  if (token.type == Type::kInteger || token.type == Type::kFloat) {
    return Make<Literal>(place, 0, tokens_.Take().number);
  }
  if (tokens_.IsOperator("[")) return ParseList();
  if (tokens_.IsOperator("{")) return ParseDict();
  if (tokens_.SkipOperator("(")) {
    ExpressionPtr inner = ParseTuple({.is_in_parentheses = true});
    tokens_.ExpectOperator(")");
    return inner;
  }
  tokens_.Fail(absl::StrCat("unexpected ", ReprString(DescribeToken(token))));
  return nullptr;
}

ExpressionPtr ExpressionParser::ParseName() {
  const Token token = tokens_.Take();
  if (std::optional<Value> constant = NamedConstant(token.text); constant.has_value()) {
    return Make<Literal>(token.place, 0, *std::move(constant));
  }
  NoteRead(token.text);
  return Make<Name>(token.place, 0, token.text);
}

ExpressionPtr ExpressionParser::ParseStrings() {
  const Place place = tokens_.current().place;
  std::string text;
  while (tokens_.Is(Type::kString)) text += tokens_.Take().text;
  return Make<Literal>(place, 0, Value::Constant(std::move(text)));
}

ExpressionPtr ExpressionParser::ParseList() {
  const Place place = tokens_.Take().place;
  std::vector<ExpressionPtr> items;
  while (!tokens_.failed() && !tokens_.IsOperator("]")) {
    if (!items.empty()) tokens_.ExpectOperator(",");
    if (tokens_.IsOperator("]")) break;
    items.push_back(Parse());
  }
  tokens_.ExpectOperator("]");
  const int depth = DepthOf(items);
  return Make<SequenceLiteral>(place, depth, /*is_tuple=*/false, std::move(items));
}

ExpressionPtr ExpressionParser::ParseDict() {
  const Place place = tokens_.Take().place;
  DictLiteral::Pairs pairs;
  int depth = 0;
  while (!tokens_.failed() && !tokens_.IsOperator("}")) {
    if (!pairs.empty()) tokens_.ExpectOperator(",");
    if (tokens_.IsOperator("}")) break;
    ExpressionPtr key = Parse();
    tokens_.ExpectOperator(":");
    pairs.emplace_back(std::move(key), Parse());
    depth = std::max({depth, DepthOf(pairs.back().first), DepthOf(pairs.back().second)});
  }
  tokens_.ExpectOperator("}");
  return Make<DictLiteral>(place, depth, std::move(pairs));
}

}  // namespace sluice::jinja
