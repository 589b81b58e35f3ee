// Python's literals as JSON texts: what models that call tools in Python's words write as arguments.
// The order of members and the spelling of numbers are kept where JSON has them.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice::gateway {

// Reads a text from its front. A method that finds nothing of its kind returns nothing; where it stands
// then is not said. Pure; the text is borrowed.
class PythonReader {
 public:
  explicit PythonReader(absl::string_view text) : rest_(text) {}

  absl::string_view rest() const { return rest_; }
  void set_rest(absl::string_view rest) { rest_ = rest; }

  // White space, line breaks included, and comments.
  void SkipSpace();
  // Whether `c` stands next; takes it, and white space before it.
  bool Take(char c);
  bool IsNext(char c);
  // Letters, digits, '_', '.' and '-': names of functions as clients have them.
  std::string TakeName();
  // A literal: a number, a string (with any prefix but b and f, in three quotes, several beside one
  // another), True, False, None, also as JSON spells them, a list, a tuple, or a dictionary with scalars
  // as keys.
  std::optional<std::string> TakeValue() { return TakeValue(0); }

 private:
  std::optional<std::string> TakeValue(int depth);
  std::optional<std::string> TakeList(int depth);
  std::optional<std::string> TakeParenthesis(int depth);
  std::optional<std::string> TakeDictionary(int depth);
  // A key as the text of JSON's string.
  std::optional<std::string> TakeKey();
  // Strings beside one another, as their characters.
  std::optional<std::string> TakeStrings();
  std::optional<std::string> TakeString();
  std::optional<std::string> TakeScalar();
  bool IsString();

  absl::string_view rest_;
};

// The characters that the inside of a literal spells: escapes resolved, unknown ones kept with their
// backslash. UTF-8; halves of surrogate pairs are joined, those without another become U+FFFD.
std::string PythonUnescaped(absl::string_view inside);

// A number as JSON spells it; nothing for what is none. Integers may be of any size up to 256 bits in
// other bases than ten.
std::optional<std::string> JsonNumberOfPython(absl::string_view number);

}  // namespace sluice::gateway
