#include "services/tokenizer/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {
namespace {

using Type = Token::Type;

int DepthOf(const ExpressionPtr& expression) {
  return expression == nullptr ? 0 : expression->depth();
}

int DepthOf(const std::vector<ExpressionPtr>& expressions) {
  int depth = 0;
  for (const ExpressionPtr& expression : expressions) depth = std::max(depth, DepthOf(expression));
  return depth;
}

int DepthOf(const CallArguments& arguments) {
  int depth = std::max({DepthOf(arguments.positional), DepthOf(arguments.spread),
                        DepthOf(arguments.spread_keywords)});
  for (const auto& keyword : arguments.keywords) depth = std::max(depth, DepthOf(keyword.second));
  return depth;
}

// The names that Jinja reads as constants.
std::optional<Value> NamedConstant(const std::string& name) {
  if (name == "true" || name == "True") return Value::Bool(true);
  if (name == "false" || name == "False") return Value::Bool(false);
  if (name == "none" || name == "None") return Value::None();
  return std::nullopt;
}

}  // namespace

template <typename T, typename... Args>
std::unique_ptr<T> ExpressionParser::Make(const Place& place, int inner_depth, Args&&... args) {
  CheckDepth(inner_depth + 1);
  auto made = std::make_unique<T>(place, std::forward<Args>(args)...);
  made->set_depth(inner_depth + 1);
  return made;
}

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
