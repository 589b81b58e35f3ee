#include <array>

#include "services/tokenizer/jinja/arguments.h"
#include "services/tokenizer/jinja/methods.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

using CharTest = bool (*)(char32_t);

bool IsAscii(char32_t c) { return c < 0x80; }
bool IsAlphanumeric(char32_t c) { return IsAlpha(c) || IsNumeric(c); }

// Whether every character is so, and there is one unless the empty text passes.
template <CharTest test, bool empty_passes>
Value All(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "test", arguments, {}, 0);
  const std::string& bytes = self.bytes();
  if (!run.StepBytes(bytes.size())) return Value();
  for (size_t at = 0; at < bytes.size();) {
    const Char c = ReadChar(bytes, at);
    if (!test(c.code_point)) return Value::Bool(false);
    at += c.length;
  }
  return Value::Bool(empty_passes || !bytes.empty());
}

// Whether there are cased characters and none of them is of the other case.
template <CharTest other>
Value HasCase(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "test", arguments, {}, 0);
  const std::string& bytes = self.bytes();
  bool has_cased = false;
  if (!run.StepBytes(bytes.size())) return Value();
  for (size_t at = 0; at < bytes.size();) {
    const Char c = ReadChar(bytes, at);
    if (other(c.code_point) || IsTitle(c.code_point)) return Value::Bool(false);
    has_cased = has_cased || IsCased(c.code_point);
    at += c.length;
  }
  return Value::Bool(has_cased);
}

Value HasTitleCase(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "istitle", arguments, {}, 0);
  const std::string& bytes = self.bytes();
  bool has_cased = false;
  bool after_cased = false;
  if (!run.StepBytes(bytes.size())) return Value();
  for (size_t at = 0; at < bytes.size();) {
    const Char c = ReadChar(bytes, at);
    const bool begins = IsUpper(c.code_point) || IsTitle(c.code_point);
    if ((begins && after_cased) || (IsLower(c.code_point) && !after_cased))
      return Value::Bool(false);
    after_cased = IsCased(c.code_point);
    has_cased = has_cased || after_cased;
    at += c.length;
  }
  return Value::Bool(has_cased);
}

Value IsIdentifier(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "isidentifier", arguments, {}, 0);
  const std::string& bytes = self.bytes();
  if (bytes.empty() || !run.StepBytes(bytes.size())) return Value::Bool(false);
  for (size_t at = 0; at < bytes.size();) {
    const Char c = ReadChar(bytes, at);
    if (!IsWordChar(c.code_point) || (at == 0 && IsNumeric(c.code_point)))
      return Value::Bool(false);
    at += c.length;
  }
  return Value::Bool(true);
}

constexpr std::array<MethodEntry, 12> kStringTests = {{
    {"isdigit", All<IsDigit, false>},
    {"isdecimal", All<IsDecimal, false>},
    {"isnumeric", All<IsNumeric, false>},
    {"isalpha", All<IsAlpha, false>},
    {"isalnum", All<IsAlphanumeric, false>},
    {"isspace", All<IsSpace, false>},
    {"isascii", All<IsAscii, true>},
    {"isprintable", All<IsPrintable, true>},
    {"isupper", HasCase<IsLower>},
    {"islower", HasCase<IsUpper>},
    {"istitle", HasTitleCase},
    {"isidentifier", IsIdentifier},
}};

}  // namespace

Method FindStringTest(std::string_view name) { return FindIn(kStringTests, name); }

}  // namespace sluice::jinja
