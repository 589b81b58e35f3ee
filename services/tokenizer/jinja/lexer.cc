#include "services/tokenizer/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/python_text.h"
#include "services/tokenizer/jinja/string_literal.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

constexpr std::array<std::string_view, 27> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]",
    "(",  ")",  "{",  "}",  ">",  "<",  "=", ".", ":", "|", ",", ";", ""};

// With "\n" for every line's end, and without the one at the end of the text.
std::string NormalizeNewlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t at = 0; at < source.size(); ++at) {
    const bool is_return = source[at] == '\r';
    text.push_back(is_return ? '\n' : source[at]);
    if (is_return && at + 1 < source.size() && source[at + 1] == '\n') ++at;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::vector<Token>* tokens, Error* error)
      : source_(NormalizeNewlines(source)), tokens_(*tokens), error_(*error) {}

  bool Run() {
    while (ok_ && at_ < source_.size()) Root();
    Add(Token::Type::kEnd, at_);
    return ok_;
  }

 private:
  std::string_view View(size_t begin, size_t end) const {
    return std::string_view(source_).substr(begin, end - begin);
  }
  bool StartsWith(size_t at, std::string_view what) const {
    return View(at, source_.size()).starts_with(what);
  }

  // Places are asked for in rising order.
  Place PlaceOf(size_t at) {
    for (; placed_ < at; ++placed_) {
      if (source_[placed_] == '\n') {
        ++line_;
        line_begin_ = placed_ + 1;
      }
    }
    return {line_, static_cast<int>(at - std::min(at, line_begin_)) + 1};
  }

  Token& Add(Token::Type type, size_t at) {
    tokens_.push_back({type, "", Value(), PlaceOf(at)});
    return tokens_.back();
  }

  void Fail(size_t at, std::string message) {
    if (!ok_) return;
    ok_ = false;
    error_ = {Error::Kind::kSyntax, std::move(message), PlaceOf(at)};
    at_ = source_.size();
  }

  size_t SkipSpace(size_t at) const {
    while (at < source_.size()) {
      const Char c = ReadChar(source_, at);
      if (!IsSpace(c.code_point)) break;
      at += c.length;
    }
    return at;
  }

  // Text up to the next tag, and that tag.
  void Root() {
    size_t tag = at_;
    while (tag < source_.size() && !IsTagAt(tag)) {
      tag = source_.find('{', tag + (source_[tag] == '{' ? 1 : 0));
      if (tag == std::string::npos) tag = source_.size();
    }
    if (tag == source_.size()) return Data(tag, tag);
    const char kind = source_[tag + 1];
    size_t inner = tag + 2;
    const char control = inner < source_.size() ? source_[inner] : '\0';
    const bool has_control = control == '-' || control == '+';
    Data(tag, DataEnd(tag, has_control ? control : '\0', kind));
    if (has_control) ++inner;
    at_ = inner;
    if (kind == '#') return Comment(tag);
    if (kind == '%') {
      if (const std::optional<size_t> body = RawBegin(inner); body.has_value()) {
        at_ = *body;
        return Raw(tag);
      }
    }
    Tag(tag, kind == '{');
  }

  bool IsTagAt(size_t at) const {
    return at + 1 < source_.size() && source_[at] == '{' &&
           (source_[at + 1] == '{' || source_[at + 1] == '%' || source_[at + 1] == '#');
  }

  // Where the text before a tag ends once the white space that the tag takes is gone.
  size_t DataEnd(size_t tag, char control, char kind) const {
    size_t end = tag;
    if (control == '-') {
      while (end > at_) {
        const Char c = ReadCharBefore(View(0, end), end);
        if (!IsSpace(c.code_point)) break;
        end -= c.length;
      }
      return end;
    }
    if (control == '+' || kind == '{') return end;
    const size_t newline = View(at_, tag).rfind('\n');
    const bool has_newline = newline != std::string_view::npos;
    if (!has_newline && !line_starts_) return end;
    const size_t line = has_newline ? at_ + newline + 1 : at_;
    return SkipSpace(line) >= tag ? line : end;
  }

  void Data(size_t tag, size_t end) {
    if (end > at_) Add(Token::Type::kData, at_).text = std::string(View(at_, end));
    at_ = tag;
  }

  // Where what follows a tag's end begins; nullopt where no tag ends at `at`.
  std::optional<size_t> TagEnd(size_t at, std::string_view close, bool trims_newline) {
    const char control = at < source_.size() ? source_[at] : '\0';
    size_t end = 0;
    if (control == '-' && StartsWith(at + 1, close)) {
      end = SkipSpace(at + 1 + close.size());
    } else if (control == '+' && trims_newline && StartsWith(at + 1, close)) {
      end = at + 1 + close.size();
    } else if (StartsWith(at, close)) {
      end = at + close.size();
      if (trims_newline && end < source_.size() && source_[end] == '\n') ++end;
    } else {
      return std::nullopt;
    }
    line_starts_ = source_[end - 1] == '\n';
    return end;
  }

  void Comment(size_t tag) {
    for (size_t at = at_; at < source_.size(); ++at) {
      at = source_.find_first_of("#+-", at);
      if (at == std::string::npos) break;
      if (const auto end = TagEnd(at, "#}", true); end.has_value()) {
        at_ = *end;
        return;
      }
    }
    Fail(tag, "Missing end of comment tag");
  }

  // Where the text of a raw block begins, if `at`, behind "{%", begins one.
  std::optional<size_t> RawBegin(size_t at) {
    at = SkipSpace(at);
    if (!StartsWith(at, "raw")) return std::nullopt;
    at = SkipSpace(at + 3);
    const bool trims = StartsWith(at, "-%}");
    if (!trims && !StartsWith(at, "%}")) return std::nullopt;
    const size_t end = trims ? SkipSpace(at + 3) : at + 2;
    line_starts_ = source_[end - 1] == '\n';
    return end;
  }

  void Raw(size_t tag) {
    for (size_t at = source_.find("{%", at_); at != std::string::npos;
         at = source_.find("{%", at + 1)) {
      size_t inner = at + 2;
      const char control = inner < source_.size() ? source_[inner] : '\0';
      const bool has_control = control == '-' || control == '+';
      inner = SkipSpace(inner + (has_control ? 1 : 0));
      if (!StartsWith(inner, "endraw")) continue;
      const size_t data_end = DataEnd(at, has_control ? control : '\0', '%');
      const auto end = TagEnd(SkipSpace(inner + 6), "%}", true);
      if (!end.has_value()) continue;
      Data(at, data_end);
      at_ = *end;
      return;
    }
    Fail(tag, "Missing end of raw directive");
  }

  // From behind "{{" or "{%" to the end of the tag.
  void Tag(size_t tag, bool is_variable) {
    Add(is_variable ? Token::Type::kVariableBegin : Token::Type::kBlockBegin, tag);
    std::string open;  // brackets, by what closes them
    while (ok_ && at_ < source_.size()) {
      if (open.empty()) {
        const size_t at = at_;
        if (const auto end = TagEnd(at, is_variable ? "}}" : "%}", !is_variable); end.has_value()) {
          Add(is_variable ? Token::Type::kVariableEnd : Token::Type::kBlockEnd, at);
          at_ = *end;
          return;
        }
      }
      Expression(&open);
    }
  }

  void Expression(std::string* open) {
    const Char c = ReadChar(source_, at_);
    if (IsSpace(c.code_point)) {
      at_ = SkipSpace(at_);
    } else if (IsDecimal(c.code_point) && c.code_point < 0x80) {
      Number();
    } else if (IsWordChar(c.code_point)) {
      Name();
    } else if (c.code_point == '"' || c.code_point == '\'') {
      String();
    } else {
      Operator(open);
    }
  }

  void Name() {
    const size_t begin = at_;
    while (at_ < source_.size()) {
      const Char c = ReadChar(source_, at_);
      if (!IsWordChar(c.code_point)) break;
      at_ += c.length;
    }
    Add(Token::Type::kName, begin).text = std::string(View(begin, at_));
  }

  void String() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) {
      return Fail(at_,
                  absl::StrCat("unexpected char ", ReprString(std::string(1, quote)), " at ", at_));
    }
    std::string text;
    const std::optional<std::string> error = UnescapeLiteral(View(at_ + 1, end), &text);
    if (error.has_value()) return Fail(at_, *error);
    Add(Token::Type::kString, at_).text = std::move(text);
    at_ = end + 1;
  }

  // Digits, single underscores between them; nothing where there is no digit.
  size_t Digits(size_t at, std::string* digits, int base = 10) const {
    const auto is_digit = [&](size_t i) {
      if (i >= source_.size()) return false;
      const auto c = static_cast<unsigned char>(source_[i]);
      return base == 16 ? std::isxdigit(c) != 0 : c >= '0' && c < '0' + base;
    };
    while (is_digit(at) ||
           (at < source_.size() && source_[at] == '_' && is_digit(at + 1) && !digits->empty())) {
      if (source_[at] != '_') digits->push_back(source_[at]);
      ++at;
    }
    return at;
  }

  void Number() {
    const bool behind_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!behind_dot && Float()) return;
    const size_t begin = at_;
    std::string digits;
    int base = 10;
    if (source_[at_] == '0' && at_ + 1 < source_.size()) {
      const auto kind =
          static_cast<char>(std::tolower(static_cast<unsigned char>(source_[at_ + 1])));
      base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    }
    if (base != 10) {
      const size_t first = at_ + 2 + (at_ + 2 < source_.size() && source_[at_ + 2] == '_' ? 1 : 0);
      at_ = Digits(first, &digits, base);
    }
    if (digits.empty()) {
      base = 10;
      at_ = source_[begin] == '0' ? Zeros(begin, &digits) : Digits(begin, &digits);
    }
    AddInteger(begin, digits, base);
  }

  size_t Zeros(size_t at, std::string* digits) const {
    digits->push_back('0');
    for (++at; at < source_.size(); ++at) {
      const bool is_separator =
          source_[at] == '_' && at + 1 < source_.size() && source_[at + 1] == '0';
      if (source_[at] != '0' && !is_separator) break;
    }
    return at;
  }

  void AddInteger(size_t begin, const std::string& digits, int base) {
    Int value = 0;
    for (const char c : digits) {
      const int digit = c <= '9' ? c - '0' : std::tolower(static_cast<unsigned char>(c)) - 'a' + 10;
      if (__builtin_mul_overflow(value, Int{base}, &value) ||
          __builtin_add_overflow(value, Int{digit}, &value)) {
        return Fail(begin, "an integer is too large: accepted are 127 bits");
      }
    }
    Add(Token::Type::kInteger, begin).number = Value::Integer(value);
  }

  bool Float() {
    std::string number;
    size_t at = Digits(at_, &number);
    bool is_float = false;
    std::string fraction;
    if (at < source_.size() && source_[at] == '.') {
      if (const size_t end = Digits(at + 1, &fraction); !fraction.empty()) {
        at = end;
        number += "." + fraction;
        is_float = true;
      }
    }
    if (at < source_.size() && (source_[at] == 'e' || source_[at] == 'E')) {
      std::string exponent;
      const bool has_sign =
          at + 1 < source_.size() && (source_[at + 1] == '+' || source_[at + 1] == '-');
      if (const size_t end = Digits(at + (has_sign ? 2 : 1), &exponent); !exponent.empty()) {
        number += "e" + (has_sign ? std::string(1, source_[at + 1]) : "") + exponent;
        at = end;
        is_float = true;
      }
    }
    if (!is_float) return false;
    Add(Token::Type::kFloat, at_).number = Value::Float(std::strtod(number.c_str(), nullptr));
    at_ = at;
    return true;
  }

  void Operator(std::string* open) {
    const auto found =
        std::find_if(kOperators.begin(), kOperators.end(),
                     [&](std::string_view symbol) { return StartsWith(at_, symbol); });
    if (found->empty()) {
      const Char c = ReadChar(source_, at_);
      return Fail(at_, absl::StrCat("unexpected char ", ReprString(View(at_, at_ + c.length)),
                                    " at ", CountChars(View(0, at_))));
    }
    const char first = (*found)[0];
    if (first == '{' || first == '(' || first == '[') {
      open->push_back(first == '{' ? '}' : first == '(' ? ')' : ']');
    } else if (first == '}' || first == ')' || first == ']') {
      if (open->empty()) return Fail(at_, absl::StrCat("unexpected '", std::string(1, first), "'"));
      if (open->back() != first) {
        return Fail(at_, absl::StrCat("unexpected '", std::string(1, first), "', expected '",
                                      std::string(1, open->back()), "'"));
      }
      open->pop_back();
    }
    Add(Token::Type::kOperator, at_).text = std::string(*found);
    at_ += found->size();
  }

  const std::string source_;
  std::vector<Token>& tokens_;
  Error& error_;
  bool ok_ = true;
  size_t at_ = 0;
  bool line_starts_ = true;  // what comes next is at the beginning of a line
  size_t placed_ = 0;
  int line_ = 1;
  size_t line_begin_ = 0;
};

}  // namespace

std::string DescribeToken(const Token& token) {
  switch (token.type) {
    case Token::Type::kData:
      return "template data / text";
    case Token::Type::kVariableBegin:
      return "begin of print statement";
    case Token::Type::kVariableEnd:
      return "end of print statement";
    case Token::Type::kBlockBegin:
      return "begin of statement block";
    case Token::Type::kBlockEnd:
      return "end of statement block";
    case Token::Type::kString:
      return "string";
    case Token::Type::kInteger:
      return "integer";
    case Token::Type::kFloat:
      return "float";
    case Token::Type::kEnd:
      return "end of template";
    default:
      return token.text;
  }
}

bool Tokenize(std::string_view source, std::vector<Token>* tokens, Error* error) {
  return Lexer(source, tokens, error).Run();
}

}  // namespace sluice::jinja
