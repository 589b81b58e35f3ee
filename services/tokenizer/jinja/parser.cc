#include "services/tokenizer/jinja/parser.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/expression_parser.h"
#include "services/tokenizer/jinja/python_text.h"
#include "services/tokenizer/jinja/statements.h"

namespace sluice::jinja {
namespace {

using Type = Token::Type;
using StatementPtr = std::unique_ptr<const Statement>;

class StatementParser {
 public:
  StatementParser(TokenStream& tokens, const Limits& limits)
      : tokens_(tokens), expressions_(tokens, limits) {}

  Body ParseTemplate() {
    Body body = ParseBody({});
    if (!expressions_.unknown().empty()) {
      const auto& unknown = expressions_.unknown().front();
      tokens_.Fail(unknown.message, unknown.place);
    }
    return body;
  }

 private:
  // Up to a tag whose name is one of `ends`, which is left to be taken; the end of the template
  // where there are none.
  Body ParseBody(const std::vector<std::string>& ends) {
    Body body;
    if (!expressions_.Enter()) return body;
    if (!ends.empty()) open_ends_.push_back(ends);
    while (!tokens_.failed() && !tokens_.Is(Type::kEnd)) {
      const Token token = tokens_.Take();
      if (token.type == Type::kData) {
        body.push_back(std::make_unique<WriteText>(token.place, token.text));
      } else if (token.type == Type::kVariableBegin) {
        body.push_back(std::make_unique<WriteValue>(token.place, expressions_.ParseTuple({})));
        tokens_.Expect(Type::kVariableEnd);
      } else {
        const auto is_end = [&](const std::string& end) { return tokens_.IsName(end); };
        if (std::any_of(ends.begin(), ends.end(), is_end)) break;
        ParseStatement(token.place, &body);
        tokens_.Expect(Type::kBlockEnd);
      }
    }
    if (!ends.empty()) {
      if (tokens_.Is(Type::kEnd)) FailUnclosed("Unexpected end of template.", "");
      open_ends_.pop_back();
    }
    expressions_.Leave();
    return body;
  }

  // The body of a statement: behind its tag. Takes the name in the tag that ends it, and gives it.
  std::string ParseInner(const std::vector<std::string>& ends, Body* body) {
    tokens_.SkipOperator(":");
    tokens_.Expect(Type::kBlockEnd);
    *body = ParseBody(ends);
    return tokens_.Take().text;
  }

  void FailUnclosed(std::string message, const std::string& tag) {
    std::string looking_for;
    if (!open_ends_.empty()) {
      for (const std::string& end : open_ends_.back()) {
        absl::StrAppend(&looking_for, looking_for.empty() ? "" : " or ", ReprString(end));
      }
      const bool is_expected = std::any_of(
          open_ends_.begin(), open_ends_.end(),
          [&](const auto& ends) { return std::find(ends.begin(), ends.end(), tag) != ends.end(); });
      absl::StrAppend(&message,
                      !tag.empty() && is_expected
                          ? " You probably made a nesting mistake. Jinja is expecting this tag, "
                            "but currently looking for "
                          : " Jinja was looking for the following tags: ",
                      looking_for, ".");
    }
    if (!tags_.empty()) {
      absl::StrAppend(&message, " The innermost block that needs to be closed is ",
                      ReprString(tags_.back()), ".");
    }
    tokens_.Fail(std::move(message));
  }

  void ParseStatement(const Place& place, Body* body) {
    if (!tokens_.Is(Type::kName)) return tokens_.Fail("tag name expected");
    const std::string tag = tokens_.current().text;
    tags_.push_back(tag);
    StatementPtr statement = ParseTag(tag, place, body);
    tags_.pop_back();
    if (statement != nullptr) body->push_back(std::move(statement));
  }

  // nullptr where there is nothing more to add to `body`, and after a failure.
  StatementPtr ParseTag(const std::string& tag, const Place& place, Body* body) {
    if (tag == "if") return ParseIf(place);
    if (tag == "for") return ParseFor(place);
    if (tag == "set") return ParseSet(place);
    if (tag == "with") return ParseWith(place);
    if (tag == "macro") return ParseMacro(place);
    if (tag == "call") return ParseCall(place);
    if (tag == "filter") return ParseFilter(place);
    if (tag == "generation") return ParseGeneration(place);
    if (tag == "break" || tag == "continue") return ParseJump(place);
    if (tag == "block") return ParseBlock(place);
    if (tag == "autoescape") return ParseAutoescape(place);
    if (tag == "print") return ParsePrint(place, body);
    if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") {
      return ParseLoad(place);
    }
    tags_.pop_back();
    FailUnclosed(absl::StrCat("Encountered unknown tag ", ReprString(tag), "."), tag);
    tags_.push_back(tag);
    return nullptr;
  }

  StatementPtr ParseIf(const Place& place) {
    const bool was_soft = expressions_.set_is_soft(true);
    std::vector<If::Branch> branches;
    std::string end;
    do {
      tokens_.Take();  // if, elif
      If::Branch branch;
      branch.test = expressions_.ParseTuple({.with_conditional = false});
      tokens_.SkipOperator(":");
      tokens_.Expect(Type::kBlockEnd);
      branch.body = ParseBody({"elif", "else", "endif"});
      branches.push_back(std::move(branch));
    } while (tokens_.IsName("elif"));
    if (tokens_.Take().text == "else") {
      branches.push_back({nullptr, {}});
      ParseInner({"endif"}, &branches.back().body);
    }
    expressions_.set_is_soft(was_soft);
    return std::make_unique<If>(place, std::move(branches));
  }

  StatementPtr ParseFor(const Place& place) {
    tokens_.Take();
    For::Parts parts{.target = expressions_.ParseTarget("in", /*with_namespaces=*/false)};
    NoteTarget(parts.target);
    if (Assigns(parts.target, "loop")) {
      tokens_.Fail("Can't assign to special loop variable in for-loop target", parts.target.place);
    }
    tokens_.ExpectKeyword("in");
    parts.items = expressions_.ParseTuple({.with_conditional = false, .end_name = "recursive"});
    const bool was_soft = expressions_.set_is_soft(false);
    if (tokens_.SkipName("if")) parts.test = expressions_.Parse();
    parts.is_recursive = tokens_.SkipName("recursive");
    ++loops_;
    const std::string end = ParseInner({"endfor", "else"}, &parts.body);
    --loops_;
    if (end == "else") ParseInner({"endfor"}, &parts.otherwise);
    expressions_.set_is_soft(was_soft);
    return std::make_unique<For>(place, std::move(parts));
  }

  static bool Assigns(const Target& target, std::string_view name) {
    if (!target.is_tuple) return target.attribute.empty() && target.name == name;
    return std::any_of(target.parts.begin(), target.parts.end(),
                       [&](const Target& part) { return Assigns(part, name); });
  }

  void NoteTarget(const Target& target) {
    for (const Target& part : target.parts) NoteTarget(part);
    if (!target.is_tuple && target.attribute.empty()) expressions_.NoteAssigned(target.name);
  }

  StatementPtr ParseSet(const Place& place) {
    tokens_.Take();
    Target target = expressions_.ParseTarget("", /*with_namespaces=*/true);
    if (tokens_.SkipOperator("=")) {
      ExpressionPtr value = expressions_.ParseTuple({});
      NoteTarget(target);
      return std::make_unique<Set>(place, std::move(target), std::move(value));
    }
    std::unique_ptr<const Filtered> filter = expressions_.ParseFilters(/*start=*/false);
    Body body;
    ParseScoped({"endset"}, &body);
    NoteTarget(target);
    return std::make_unique<SetBlock>(place, std::move(target), std::move(filter), std::move(body));
  }

  // A body that is no part of a condition around it any more, for unknown filters.
  void ParseScoped(const std::vector<std::string>& ends, Body* body) {
    const bool was_soft = expressions_.set_is_soft(false);
    ParseInner(ends, body);
    expressions_.set_is_soft(was_soft);
  }

  StatementPtr ParseWith(const Place& place) {
    tokens_.Take();
    std::vector<With::Variable> variables;
    while (!tokens_.failed() && !tokens_.Is(Type::kBlockEnd) && !tokens_.IsOperator(":")) {
      if (!variables.empty()) tokens_.ExpectOperator(",");
      Target target = expressions_.ParseTarget("", /*with_namespaces=*/false);
      tokens_.ExpectOperator("=");
      variables.push_back({std::move(target), expressions_.Parse()});
      NoteTarget(variables.back().target);
    }
    Body body;
    ParseScoped({"endwith"}, &body);
    return std::make_unique<With>(place, std::move(variables), std::move(body));
  }

  void ParseParameters(MacroCode* code) {
    tokens_.ExpectOperator("(");
    while (!tokens_.failed() && !tokens_.IsOperator(")")) {
      if (!code->parameters.empty()) tokens_.ExpectOperator(",");
      MacroCode::Parameter parameter{tokens_.ExpectName(), nullptr};
      if (tokens_.SkipOperator("=")) {
        parameter.otherwise = expressions_.Parse();
      } else if (!code->parameters.empty() && code->parameters.back().otherwise != nullptr) {
        tokens_.Fail("non-default argument follows default argument");
      }
      code->parameters.push_back(std::move(parameter));
    }
    tokens_.ExpectOperator(")");
  }

  void ParseMacroBody(const char* end, MacroCode* code) {
    ExpressionParser::NameWatch watch;
    expressions_.Watch(&watch);
    const int loops = std::exchange(loops_, 0);
    ParseScoped({end}, &code->body);
    loops_ = loops;
    expressions_.Unwatch();
    const auto parameter = [&](std::string_view name) {
      return std::find_if(code->parameters.begin(), code->parameters.end(),
                          [&](const auto& candidate) { return candidate.name == name; });
    };
    const auto has = [&](std::string_view name) {
      return parameter(name) != code->parameters.end();
    };
    code->uses_caller = watch.read.contains("caller");
    code->uses_keywords = watch.read.contains("kwargs") && !has("kwargs");
    code->uses_arguments = watch.read.contains("varargs") && !has("varargs");
    if (code->uses_caller && has("caller") && parameter("caller")->otherwise == nullptr) {
      tokens_.Fail(
          "When defining macros or call blocks the special \"caller\" argument must be omitted or "
          "be given a default.");
    }
  }

  StatementPtr ParseMacro(const Place& place) {
    tokens_.Take();
    MacroCode code;
    code.name = tokens_.ExpectName();
    expressions_.NoteAssigned(code.name);
    ParseParameters(&code);
    ParseMacroBody("endmacro", &code);
    return std::make_unique<DefineMacro>(place, std::move(code));
  }

  StatementPtr ParseCall(const Place& place) {
    tokens_.Take();
    MacroCode code;
    code.name = "caller";
    if (tokens_.IsOperator("(")) ParseParameters(&code);
    std::unique_ptr<const Call> call = expressions_.ParseCallExpression();
    ParseMacroBody("endcall", &code);
    return std::make_unique<CallBlock>(place, std::move(code), std::move(call));
  }

  StatementPtr ParseFilter(const Place& place) {
    tokens_.Take();
    std::unique_ptr<const Filtered> filter = expressions_.ParseFilters(/*start=*/true);
    Body body;
    ParseScoped({"endfilter"}, &body);
    return std::make_unique<FilterBlock>(place, std::move(filter), std::move(body));
  }

  StatementPtr ParseGeneration(const Place& place) {
    tokens_.Take();
    Body body;
    const int loops = std::exchange(loops_, 0);
    ParseScoped({"endgeneration"}, &body);
    loops_ = loops;
    return std::make_unique<Generation>(place, std::move(body));
  }

  StatementPtr ParseJump(const Place& place) {
    const Token token = tokens_.Take();
    const bool is_break = token.text == "break";
    if (loops_ == 0) {
      tokens_.Fail(is_break ? "'break' outside loop" : "'continue' not properly in loop",
                   token.place);
    }
    return std::make_unique<Jump>(place, is_break ? Flow::kBreak : Flow::kContinue);
  }

  // There is no template to inherit from: a block stands where it is.
  StatementPtr ParseBlock(const Place& place) {
    tokens_.Take();
    const std::string name = tokens_.ExpectName();
    tokens_.SkipName("scoped");
    tokens_.SkipName("required");
    if (tokens_.IsOperator("-")) {
      tokens_.Fail(
          "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, "
          "use an underscore instead.");
    }
    Body body;
    const int loops = std::exchange(loops_, 0);
    ParseScoped({"endblock"}, &body);
    loops_ = loops;
    tokens_.SkipName(name);
    return std::make_unique<With>(place, std::vector<With::Variable>(), std::move(body));
  }

  StatementPtr ParseAutoescape(const Place& place) {
    tokens_.Take();
    expressions_.Parse();
    Body body;
    ParseScoped({"endautoescape"}, &body);
    return std::make_unique<With>(place, std::vector<With::Variable>(), std::move(body));
  }

  StatementPtr ParsePrint(const Place& place, Body* body) {
    tokens_.Take();
    bool is_first = true;
    while (!tokens_.failed() && !tokens_.Is(Type::kBlockEnd)) {
      if (!is_first) tokens_.ExpectOperator(",");
      is_first = false;
      body->push_back(std::make_unique<WriteValue>(place, expressions_.Parse()));
    }
    return nullptr;
  }

  StatementPtr ParseLoad(const Place& place) {
    const std::string tag = tokens_.Take().text;
    expressions_.Parse();
    while (!tokens_.failed() && !tokens_.Is(Type::kBlockEnd) && !tokens_.Is(Type::kEnd)) {
      if (tag == "extends" || (!tokens_.Is(Type::kName) && !tokens_.IsOperator(","))) break;
      tokens_.Take();
    }
    return std::make_unique<Load>(place);
  }

  TokenStream& tokens_;
  ExpressionParser expressions_;
  std::vector<std::string> tags_;                    // statements around
  std::vector<std::vector<std::string>> open_ends_;  // what would end each
  int loops_ = 0;                                    // that break and continue could end
};

}  // namespace

bool Parse(std::string_view source, const Limits& limits, Body* body, Error* error) {
  std::vector<Token> tokens;
  if (!Tokenize(source, &tokens, error)) return false;
  TokenStream stream(std::move(tokens));
  *body = StatementParser(stream, limits).ParseTemplate();
  if (stream.failed()) *error = stream.error();
  return !stream.failed();
}

}  // namespace sluice::jinja
