// The tokens of a template, read one after another. The first error sticks: from then on there is
// nothing but the end.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "services/tokenizer/jinja/lexer.h"

namespace sluice::jinja {

class TokenStream {
 public:
  // REQUIRES: ends with kEnd.
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token Take();

  bool Is(Token::Type type) const { return current().type == type; }
  bool IsOperator(std::string_view symbol) const {
    return Is(Token::Type::kOperator) && current().text == symbol;
  }
  bool IsName(std::string_view name) const {
    return Is(Token::Type::kName) && current().text == name;
  }
  bool NextIsName(std::string_view name) const {
    return next().type == Token::Type::kName && next().text == name;
  }
  bool SkipOperator(std::string_view symbol);
  bool SkipName(std::string_view name);

  // Takes what must come next.
  void ExpectOperator(std::string_view symbol);
  void Expect(Token::Type type);
  std::string ExpectName();
  void ExpectKeyword(std::string_view name);

  bool failed() const { return failed_; }
  const Error& error() const { return error_; }
  void Fail(std::string message) { Fail(std::move(message), current().place); }
  void Fail(std::string message, const Place& place);

 private:
  void FailExpected(std::string_view expected);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  bool failed_ = false;
  Error error_;
};

}  // namespace sluice::jinja
