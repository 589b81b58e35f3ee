#include "services/constraint/regex/pattern_parser.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "services/constraint/json/message.h"
#include "services/constraint/regex/expr.h"
#include "services/constraint/regex/unicode_sets.h"

namespace sluice {
namespace {

using Kind = PatternNode::Kind;

class PatternParser {
 public:
  PatternParser(std::string_view pattern, const PatternLimits& limits)
      : pattern_(pattern), limits_(limits) {}

  absl::StatusOr<PatternNode> Run() {
    PatternNode node = Choice(0);
    if (status_.ok() && !AtEnd()) Invalid("an unmatched )");
    if (!status_.ok()) return status_;
    return node;
  }

 private:
  bool AtEnd() const { return at_ >= pattern_.size(); }
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  bool Take(std::string_view text) {
    if (pattern_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  void Fail(absl::StatusCode code, std::string_view what) {
    if (status_.ok())
      status_ = absl::Status(
          code, Message("pattern \"", pattern_.substr(0, 80), "\", byte ", at_, ": ", what));
    at_ = pattern_.size();
  }
  void Invalid(std::string_view what) { Fail(absl::StatusCode::kInvalidArgument, what); }
  void Unknown(std::string_view what) {
    Fail(absl::StatusCode::kUnimplemented, Message(what, " can't be kept"));
  }

  static PatternNode SetNode(CodeSet set) {
    PatternNode node;
    node.kind = Kind::kSet;
    node.set = std::move(set);
    return node;
  }
  static PatternNode Assertion(Kind kind) {
    PatternNode node;
    node.kind = kind;
    node.has_assertion = true;
    return node;
  }
  static void Append(PatternNode& parent, PatternNode child) {
    parent.has_assertion |= child.has_assertion;
    parent.inner.push_back(std::move(child));
  }

  PatternNode Choice(int depth) {
    PatternNode choice;
    choice.kind = Kind::kChoice;
    if (depth > limits_.max_depth) {
      Fail(absl::StatusCode::kResourceExhausted,
           Message("groups nested deeper than ", limits_.max_depth));
      return choice;
    }
    do Append(choice, Sequence(depth));
    while (Take("|"));
    if (choice.inner.size() > 1) return choice;
    PatternNode only = std::move(choice.inner[0]);
    return only;
  }

  PatternNode Sequence(int depth) {
    PatternNode sequence;
    while (!AtEnd() && Peek() != '|' && Peek() != ')') {
      PatternNode item = Atom(depth);
      if (!status_.ok()) break;
      Quantify(item);
      Append(sequence, std::move(item));
    }
    return sequence;
  }

  // The number that {n} and its like hold; at the digit or nothing.
  std::optional<uint32_t> Count(size_t& at) const {
    if (at >= pattern_.size() || pattern_[at] < '0' || pattern_[at] > '9') return std::nullopt;
    uint64_t count = 0;
    for (; at < pattern_.size() && pattern_[at] >= '0' && pattern_[at] <= '9'; ++at)
      count = std::min<uint64_t>(count * 10 + static_cast<uint64_t>(pattern_[at] - '0'),
                                 UINT32_MAX - 1);
    return static_cast<uint32_t>(count);
  }

  // {n}, {n,} and {n,m}; anything else leaves the brace literal.
  bool Braces(uint32_t& min, uint32_t& max) {
    size_t at = at_ + 1;
    const auto first = Count(at);
    if (!first.has_value()) return false;
    min = max = *first;
    if (at < pattern_.size() && pattern_[at] == ',') {
      ++at;
      max = Count(at).value_or(ExprSpace::kUnbounded);
    }
    if (at >= pattern_.size() || pattern_[at] != '}') return false;
    at_ = at + 1;
    return true;
  }

  void Quantify(PatternNode& item) {
    uint32_t min = 0, max = ExprSpace::kUnbounded;
    if (Take("*")) {
    } else if (Take("+")) {
      min = 1;
    } else if (Take("?")) {
      max = 1;
    } else if (Peek() != '{' || !Braces(min, max)) {
      return;
    }
    Take("?");  // a lazy quantifier matches the same texts
    if (Peek() == '*' || Peek() == '+' || Peek() == '?') return Invalid("nothing to repeat");
    if (min > max) return Invalid("numbers out of order in {}");
    if (min > limits_.max_repeat || (max != ExprSpace::kUnbounded && max > limits_.max_repeat))
      return Fail(absl::StatusCode::kResourceExhausted,
                  Message("more than ", limits_.max_repeat, " repetitions"));
    if (item.kind == Kind::kBegin || item.kind == Kind::kEnd) return Invalid("nothing to repeat");
    PatternNode repeat;
    repeat.kind = Kind::kRepeat;
    repeat.min = min;
    repeat.max = max;
    Append(repeat, std::move(item));
    item = std::move(repeat);
  }

  PatternNode Atom(int depth) {
    const char c = Peek();
    switch (c) {
      case '^':
        ++at_;
        return Assertion(Kind::kBegin);
      case '$':
        ++at_;
        return Assertion(Kind::kEnd);
      case '.':
        ++at_;
        return SetNode(DotSet());
      case '[':
        return SetNode(Brackets());
      case '(':
        return Group(depth);
      case '\\':
        return Escape();
      case '*':
      case '+':
      case '?':
        Invalid("nothing to repeat");
        return {};
      default: {
        const uint32_t code = CodePoint();
        return SetNode(MakeCodeSet({{code, code}}));
      }
    }
  }

  PatternNode Group(int depth) {
    ++at_;
    std::optional<bool> look_negated;
    if (Take("?=")) {
      look_negated = false;
    } else if (Take("?!")) {
      look_negated = true;
    } else if (Take("?<=") || Take("?<!")) {
      Unknown("look-behind");
    } else if (Take("?<") || Take("?P<")) {
      const size_t end = pattern_.find('>', at_);
      if (end == std::string_view::npos) {
        Invalid("a group's name without its end");
      } else {
        at_ = end + 1;
      }
    } else if (!Take("?:") && Peek() == '?') {
      Unknown("a group that begins (?" + std::string(1, Peek(1)));
    }
    PatternNode inner = Choice(depth + 1);
    if (status_.ok() && !Take(")")) Invalid("a group without its end");
    if (!look_negated.has_value()) return inner;
    PatternNode look = Assertion(Kind::kLook);
    look.negated = *look_negated;
    look.inner.push_back(std::move(inner));
    return look;
  }

  uint32_t CodePoint() {
    const auto lead = static_cast<unsigned char>(pattern_[at_++]);
    if (lead < 0x80) return lead;
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    uint32_t code = lead & (0x3F >> more);
    for (int i = 0; i < more; ++i) {
      if (lead < 0xC2 || (static_cast<unsigned char>(Peek()) & 0xC0) != 0x80) {
        Invalid("not UTF-8");
        return 0;
      }
      code = code << 6 | (static_cast<unsigned char>(pattern_[at_++]) & 0x3F);
    }
    return code;
  }

  std::optional<uint32_t> Hex(int digits) const {
    uint32_t code = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = Peek(static_cast<size_t>(i));
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return std::nullopt;
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    return code;
  }

  // Behind \u: HHHH, {H...}, or a surrogate pair as two of them; without these a literal u.
  uint32_t UnicodeEscape() {
    if (Peek() == '{') {
      const size_t end = pattern_.find('}', at_);
      const size_t length = end == std::string_view::npos ? 0 : end - at_ - 1;
      ++at_;
      const auto code = length >= 1 && length <= 6 ? Hex(static_cast<int>(length)) : std::nullopt;
      if (!code.has_value() || *code > kMaxCodePoint) {
        Invalid("\\u{} must hold a code point");
        return 0;
      }
      at_ = end + 1;
      return *code;
    }
    const auto high = Hex(4);
    if (!high.has_value()) return 'u';
    at_ += 4;
    if (*high < 0xD800 || *high > 0xDBFF || Peek() != '\\' || Peek(1) != 'u') return *high;
    const size_t back = at_;
    at_ += 2;
    const auto low = Hex(4);
    if (low.has_value() && *low >= 0xDC00 && *low <= 0xDFFF) {
      at_ += 4;
      return 0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00);
    }
    at_ = back;
    return *high;
  }

  // Behind a backslash: a character that stands for itself or another.
  uint32_t CharacterEscape() {
    constexpr std::string_view kLetters = "tnrvf0", kMeant("\t\n\r\v\f\0", 6);
    const char c = Peek();
    if (AtEnd()) {
      Invalid("a backslash at the end");
      return 0;
    }
    if (const size_t index = kLetters.find(c); index != std::string_view::npos) {
      ++at_;
      return static_cast<uint32_t>(kMeant[index]);
    }
    if (c == 'x' && (++at_, true)) {
      const auto code = Hex(2);
      if (!code.has_value()) return 'x';
      at_ += 2;
      return *code;
    }
    if (c == 'u' && (++at_, true)) return UnicodeEscape();
    if (c == 'c' && ((Peek(1) >= 'a' && Peek(1) <= 'z') || (Peek(1) >= 'A' && Peek(1) <= 'Z'))) {
      at_ += 2;
      return static_cast<uint32_t>(pattern_[at_ - 1]) % 32;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      Invalid(Message("\\", std::string(1, c), " is no escape"));
      return 0;
    }
    return CodePoint();
  }

  // \d and its like; nullopt where it is no class.
  std::optional<CodeSet> ClassEscape() {
    const char c = Peek();
    switch (c) {
      case 'd':
      case 'D':
        ++at_;
        return c == 'd' ? DigitSet() : Complement(DigitSet());
      case 'w':
      case 'W':
        ++at_;
        return c == 'w' ? WordSet() : Complement(WordSet());
      case 's':
      case 'S':
        ++at_;
        return c == 's' ? SpaceSet() : Complement(SpaceSet());
      case 'p':
      case 'P': {
        const size_t end = pattern_.find('}', at_);
        if (Peek(1) != '{' || end == std::string_view::npos) return std::nullopt;
        const std::string_view name = pattern_.substr(at_ + 2, end - at_ - 2);
        const auto set = PropertySet(name);
        if (!set.has_value()) {
          Unknown(Message("\\p{", name, "}"));
          return CodeSet{};
        }
        at_ = end + 1;
        return c == 'p' ? *set : Complement(*set);
      }
      default:
        return std::nullopt;
    }
  }

  PatternNode Escape() {
    ++at_;
    const char c = Peek();
    if (c == 'b' || c == 'B') {
      Unknown(Message("\\", std::string(1, c)));
      return {};
    }
    if ((c >= '1' && c <= '9') || (c == 'k' && Peek(1) == '<')) {
      Unknown("a back-reference");
      return {};
    }
    if (auto set = ClassEscape(); set.has_value()) return SetNode(*std::move(set));
    const uint32_t code = CharacterEscape();
    return SetNode(MakeCodeSet({{code, code}}));
  }

  // One character of a bracket, or a class in it.
  std::optional<uint32_t> BracketItem(std::vector<CodeRange>& ranges) {
    if (Peek() != '\\') return CodePoint();
    ++at_;
    if (auto set = ClassEscape(); set.has_value()) {
      ranges.insert(ranges.end(), set->begin(), set->end());
      return std::nullopt;
    }
    if (Take("b")) return '\b';
    if (Take("-")) return '-';
    return CharacterEscape();
  }

  CodeSet Brackets() {
    ++at_;
    const bool negated = Take("^");
    std::vector<CodeRange> ranges;
    while (status_.ok() && !AtEnd() && Peek() != ']') {
      const auto first = BracketItem(ranges);
      const bool is_range = Peek() == '-' && Peek(1) != ']' && at_ + 1 < pattern_.size();
      if (!first.has_value() || !is_range) {
        if (first.has_value()) ranges.push_back({*first, *first});
        continue;
      }
      ++at_;
      const auto last = BracketItem(ranges);
      if (!last.has_value()) {
        ranges.push_back({*first, *first});
        ranges.push_back({'-', '-'});
      } else if (*first > *last) {
        Invalid("a range out of order");
      } else {
        ranges.push_back({*first, *last});
      }
    }
    if (status_.ok() && !Take("]")) Invalid("a [ without its ]");
    CodeSet set = MakeCodeSet(std::move(ranges));
    return negated ? Complement(set) : set;
  }

  const std::string_view pattern_;
  const PatternLimits& limits_;
  size_t at_ = 0;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<PatternNode> ParsePattern(std::string_view pattern, const PatternLimits& limits) {
  if (pattern.size() > limits.max_bytes)
    return absl::ResourceExhaustedError(
        Message("a pattern of ", pattern.size(), " bytes; accepted: up to ", limits.max_bytes));
  return PatternParser(pattern, limits).Run();
}

}  // namespace sluice
