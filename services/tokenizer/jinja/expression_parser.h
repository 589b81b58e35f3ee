// Parses expressions, with Jinja's precedence. Not thread-safe.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "services/tokenizer/jinja/expressions.h"
#include "services/tokenizer/jinja/limits.h"
#include "services/tokenizer/jinja/stack_guard.h"
#include "services/tokenizer/jinja/token_stream.h"

namespace sluice::jinja {

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, const Limits& limits)
      : tokens_(tokens), limits_(limits), stack_(limits.max_stack_bytes) {}

  // Each returns nullptr after a failure of the tokens.
  ExpressionPtr Parse() { return ParseConditional(); }
  ExpressionPtr ParseWithoutConditional() { return ParseOr(); }

  // One expression, or several with commas between them: a tuple.
  struct TupleOptions {
    bool with_conditional = true;
    std::string_view end_name;  // a name that ends it, such as "recursive"
    bool is_in_parentheses = false;
  };
  ExpressionPtr ParseTuple(const TupleOptions& options);

  Target ParseTarget(std::string_view end_name, bool with_namespaces);

  // The filters of a block: `start` for the first one, without "|". nullptr where there is none.
  std::unique_ptr<const Filtered> ParseFilters(bool start);
  std::unique_ptr<const Call> ParseCallExpression();

  // Names of filters and tests that there are none of, outside conditions.
  struct Unknown {
    std::string message;
    Place place;
  };
  const std::vector<Unknown>& unknown() const { return unknown_; }
  // Inside conditions, such names are errors only where they are reached.
  bool set_is_soft(bool is_soft) { return std::exchange(is_soft_, is_soft); }

  // The names read since the last call with a set, except those that were assigned before.
  struct NameWatch {
    std::set<std::string> read;
    std::set<std::string> assigned;
  };
  void Watch(NameWatch* watch) { watches_.push_back(watch); }
  void Unwatch() { watches_.pop_back(); }
  void NoteAssigned(const std::string& name);

  // Counts what is nested; false with an error where it is too deep.
  bool Enter();
  void Leave() { --depth_; }

 private:
  ExpressionPtr ParseConditional();
  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseComparison();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcatenation();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  ExpressionPtr ParseUnary(bool with_filters);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParseName();
  ExpressionPtr ParseStrings();
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();
  ExpressionPtr ParsePostfix(ExpressionPtr expression);
  ExpressionPtr ParseFiltersAndTests(ExpressionPtr expression);
  ExpressionPtr ParseSubscript(ExpressionPtr object);
  ExpressionPtr ParseDot(ExpressionPtr object, const Place& place);
  ExpressionPtr ParseCall(ExpressionPtr callee);
  ExpressionPtr ParseTest(ExpressionPtr value);
  std::unique_ptr<Filtered> ParseFilter(ExpressionPtr value);
  CallArguments ParseArguments();
  std::string ParseDottedName();
  bool IsTupleEnd(std::string_view end_name) const;
  Target ParseOneTarget(bool with_namespaces);
  void NoteUnknown(const char* kind, const std::string& name, const Place& place);
  void NoteRead(const std::string& name);

  // An expression around `parts`, which may be nullptr; checks its depth.
  template <typename T, typename... Args>
  std::unique_ptr<T> Make(const Place& place, int inner_depth, Args&&... args);
  void CheckDepth(int depth);

  TokenStream& tokens_;
  const Limits& limits_;
  const StackGuard stack_;
  int depth_ = 0;
  bool is_soft_ = false;
  std::vector<Unknown> unknown_;
  std::vector<NameWatch*> watches_;
};

}  // namespace sluice::jinja
