// A template's text into tokens, with the white space around tags that Jinja takes away (as
// trim_blocks and lstrip_blocks say) taken away.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "services/tokenizer/jinja/error.h"
#include "services/tokenizer/jinja/value.h"

namespace sluice::jinja {

struct Token {
  enum class Type {
    kData,           // text between tags
    kVariableBegin,  // {{
    kVariableEnd,
    kBlockBegin,  // {%
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,  // `text` is the operator
    kEnd,
  };

  Type type = Type::kEnd;
  std::string text;  // of data, names, operators; the value of strings
  Value number;      // of integers and floats
  Place place;
};

// As Jinja calls it in messages.
std::string DescribeToken(const Token& token);

// The tokens of `source`, the last one kEnd; false with `error` filled where it is no template.
// REQUIRES: valid UTF-8.
bool Tokenize(std::string_view source, std::vector<Token>* tokens, Error* error);

}  // namespace sluice::jinja
