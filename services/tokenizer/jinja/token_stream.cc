#include "services/tokenizer/jinja/token_stream.h"

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {

Token TokenStream::Take() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::SkipOperator(std::string_view symbol) {
  const bool is_there = IsOperator(symbol);
  if (is_there) Take();
  return is_there;
}

bool TokenStream::SkipName(std::string_view name) {
  const bool is_there = IsName(name);
  if (is_there) Take();
  return is_there;
}

void TokenStream::Fail(std::string message, const Place& place) {
  if (failed_) return;
  failed_ = true;
  error_ = {Error::Kind::kSyntax, std::move(message), place};
  at_ = tokens_.size() - 1;
}

void TokenStream::FailExpected(std::string_view expected) {
  const std::string wanted = ReprString(expected);
  if (Is(Token::Type::kEnd)) {
    return Fail(absl::StrCat("unexpected end of template, expected ", wanted, "."));
  }
  Fail(absl::StrCat("expected token ", wanted, ", got ", ReprString(DescribeToken(current()))));
}

void TokenStream::ExpectOperator(std::string_view symbol) {
  if (!SkipOperator(symbol)) FailExpected(symbol);
}

void TokenStream::Expect(Token::Type type) {
  if (!Is(type)) return FailExpected(DescribeToken(Token{type}));
  Take();
}

std::string TokenStream::ExpectName() {
  if (Is(Token::Type::kName)) return Take().text;
  FailExpected("name");
  return "";
}

void TokenStream::ExpectKeyword(std::string_view name) {
  if (!SkipName(name)) FailExpected(name);
}

}  // namespace sluice::jinja
