#include "services/tokenizer/jinja/expression_parser.h"

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/expression_parser-inl.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {

namespace {

using Type = Token::Type;

}  // namespace

void ExpressionParser::CheckDepth(int depth) {
  if (depth > limits_.max_syntax_depth || stack_.IsExceeded()) {
    tokens_.Fail(absl::StrCat("the template nests too deeply: accepted are ",
                              limits_.max_syntax_depth, " levels"));
  }
}

bool ExpressionParser::Enter() {
  CheckDepth(++depth_);
  return !tokens_.failed();
}

void ExpressionParser::NoteUnknown(const char* kind, const std::string& name, const Place& place) {
  if (is_soft_) return;
  unknown_.push_back({absl::StrCat("No ", kind, " named ", ReprString(name), "."), place});
}

void ExpressionParser::NoteRead(const std::string& name) {
  for (NameWatch* watch : watches_) {
    if (!watch->assigned.contains(name)) watch->read.insert(name);
  }
}

void ExpressionParser::NoteAssigned(const std::string& name) {
  for (NameWatch* watch : watches_) watch->assigned.insert(name);
}

bool ExpressionParser::IsTupleEnd(std::string_view end_name) const {
  return tokens_.Is(Type::kVariableEnd) || tokens_.Is(Type::kBlockEnd) || tokens_.IsOperator(")") ||
         (!end_name.empty() && tokens_.IsName(end_name));
}

ExpressionPtr ExpressionParser::ParseTuple(const TupleOptions& options) {
  const Place place = tokens_.current().place;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (!tokens_.failed()) {
    if (!items.empty()) tokens_.ExpectOperator(",");
    if (IsTupleEnd(options.end_name)) break;
    items.push_back(options.with_conditional ? Parse() : ParseWithoutConditional());
    if (!tokens_.IsOperator(",")) break;
    is_tuple = true;
  }
  if (tokens_.failed()) return nullptr;
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (!is_tuple && !options.is_in_parentheses) {
    tokens_.Fail(
        absl::StrCat("Expected an expression, got ", ReprString(DescribeToken(tokens_.current()))));
    return nullptr;
  }
  const int depth = DepthOf(items);
  return Make<SequenceLiteral>(place, depth, /*is_tuple=*/true, std::move(items));
}

Target ExpressionParser::ParseOneTarget(bool with_namespaces) {
  Target target(tokens_.current().place);
  if (tokens_.SkipOperator("(")) {
    target = ParseTarget("", with_namespaces);
    tokens_.ExpectOperator(")");
    return target;
  }
  const Token& token = tokens_.current();
  if (token.type != Type::kName) {
    const bool is_constant =
        token.type == Type::kString || token.type == Type::kInteger || token.type == Type::kFloat;
    const bool is_literal = tokens_.IsOperator("[") || tokens_.IsOperator("{");
    tokens_.Fail(is_constant ? "can't assign to 'const'"
                 : is_literal
                     ? absl::StrCat("can't assign to '", token.text == "[" ? "list" : "dict", "'")
                     : absl::StrCat("unexpected ", ReprString(DescribeToken(token))));
    return target;
  }
  target.name = tokens_.Take().text;
  if (NamedConstant(target.name).has_value()) {
    tokens_.Fail("can't assign to 'const'", target.place);
  } else if (with_namespaces && tokens_.SkipOperator(".")) {
    target.attribute = tokens_.ExpectName();
  }
  return target;
}

Target ExpressionParser::ParseTarget(std::string_view end_name, bool with_namespaces) {
  Target tuple(tokens_.current().place);
  if (!Enter()) return tuple;
  while (!tokens_.failed()) {
    if (!tuple.parts.empty()) tokens_.ExpectOperator(",");
    if (IsTupleEnd(end_name)) break;
    tuple.parts.push_back(ParseOneTarget(with_namespaces));
    if (!tokens_.IsOperator(",")) break;
    tuple.is_tuple = true;
  }
  Leave();
  if (tuple.parts.empty()) {
    tokens_.Fail(
        absl::StrCat("Expected an expression, got ", ReprString(DescribeToken(tokens_.current()))));
    return tuple;
  }
  if (tuple.is_tuple) return tuple;
  Target only = std::move(tuple.parts.front());
  return only;
}

}  // namespace sluice::jinja
