// The types of a tool's arguments, for formats that write values as plain text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice::gateway {

class ArgumentTypes {
 public:
  // `schema` is the JSON schema of the tool's parameters; empty, or no JSON: nothing is known.
  explicit ArgumentTypes(absl::string_view schema);

  // Whether the argument can be nothing but a string, so that any text is its value as it stands.
  bool IsString(const std::string& argument) const;

  // The value as JSON that the text stands for: of one of the types that the schema allows where the
  // text is one, as JSON or as a literal of Python; else the text as a string. Numbers keep their
  // spelling. Where the schema does not say, what is JSON is a value.
  std::string Value(const std::string& argument, absl::string_view text) const;

 private:
  unsigned TypesOf(const std::string& argument) const;
  unsigned TypesOf(const nlohmann::json& schema, int depth) const;

  nlohmann::json schema_;
};

// What a JSON string has of a text between its quotes. Byte by byte: a character may come in parts.
std::string EscapedForJson(absl::string_view text);

}  // namespace sluice::gateway
