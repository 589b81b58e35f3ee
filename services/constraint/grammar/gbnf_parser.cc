#include "services/constraint/grammar/gbnf_parser.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "services/constraint/json/message.h"
#include "services/constraint/regex/expr.h"

namespace sluice {
namespace {

constexpr uint32_t kNotDefined = UINT32_MAX;
constexpr int kMostRepeatsOfElement = 8;

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

void AppendUtf8(uint32_t code, std::string& text) {
  const auto add = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

bool IsCharacter(uint32_t code) {
  return code <= kMaxCodePoint && (code < 0xD800 || code > 0xDFFF);
}

class Parser {
 public:
  Parser(std::string_view text, const GbnfLimits& limits) : text_(text), limits_(limits) {}

  absl::StatusOr<GbnfDocument> Parse() {
    if (text_.size() > limits_.max_bytes) {
      return absl::ResourceExhaustedError(
          Message("the grammar has ", text_.size(), " bytes; accepted: up to ", limits_.max_bytes));
    }
    SkipSpace(/*newlines=*/true);
    while (status_.ok() && !AtEnd()) ParseRule();
    if (status_.ok()) CheckRules();
    if (!status_.ok()) return status_;
    document_.root = ids_.at("root");
    return std::move(document_);
  }

 private:
  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  bool Take(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }

  std::string Place(size_t at) const {
    const std::string_view before = text_.substr(0, at);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t begin = before.rfind('\n') + 1;  // 0 where there is none
    return Message("line ", line, ", column ", at - begin + 1, ": ");
  }
  void FailAt(size_t at, const std::string& why) {
    status_.Update(absl::InvalidArgumentError(Message(Place(at), why)));
  }
  void Fail(const std::string& why) { FailAt(at_, why); }
  void FailUnimplemented(const std::string& what) {
    status_.Update(absl::UnimplementedError(Message(Place(at_), what)));
  }

  void SkipSpace(bool newlines) {
    while (!AtEnd()) {
      const char c = Peek();
      if (c == '#') {
        while (!AtEnd() && Peek() != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  // Between alternatives: behind a line break only where the next line goes on with one.
  bool TakeBar(bool nested) {
    const size_t before = at_;
    SkipSpace(/*newlines=*/true);
    if (Take("|")) return true;
    if (!nested) at_ = before;
    return false;
  }

  std::string ParseName() {
    const size_t begin = at_;
    while (IsNameByte(Peek())) ++at_;
    if (at_ == begin) Fail("expected the name of a rule");
    return std::string(text_.substr(begin, at_ - begin));
  }

  uint32_t RuleNamed(const std::string& name, size_t at) {
    const auto [found, is_new] = ids_.try_emplace(name, document_.rules.size());
    if (is_new) {
      document_.rules.push_back({name, {}});
      defined_at_.push_back(kNotDefined);
      used_at_.push_back(at);
      if (document_.rules.size() > limits_.max_rules) {
        status_.Update(absl::ResourceExhaustedError(
            Message("the grammar has more than ", limits_.max_rules, " rules")));
      }
    }
    return found->second;
  }

  void ParseRule() {
    const size_t begin = at_;
    const std::string name = ParseName();
    SkipSpace(/*newlines=*/false);
    if (status_.ok() && !Take("::=")) Fail(Message("expected ::= behind ", name));
    if (!status_.ok()) return;
    const uint32_t rule = RuleNamed(name, begin);
    if (defined_at_[rule] != kNotDefined) return FailAt(begin, Message(name, " is defined twice"));
    defined_at_[rule] = static_cast<uint32_t>(begin);
    SkipSpace(/*newlines=*/true);
    GbnfNode body = ParseChoice(0);
    document_.rules[rule].body = std::move(body);
    if (!status_.ok()) return;
    if (!AtEnd() && Peek() != '\n' && Peek() != '\r') return Fail(Unexpected());
    SkipSpace(/*newlines=*/true);
  }

  std::string Unexpected() const {
    return AtEnd() ? "the grammar ends too early" : Message("unexpected ", text_.substr(at_, 1));
  }

  GbnfNode ParseChoice(int depth) {
    GbnfNode choice{.kind = GbnfNode::Kind::kChoice};
    if (depth > limits_.max_depth) {
      status_.Update(absl::ResourceExhaustedError(
          Message(Place(at_), "parentheses are deeper than ", limits_.max_depth)));
      return choice;
    }
    do {
      choice.inner.push_back(ParseSequence(depth));
    } while (status_.ok() && TakeBar(depth > 0));
    if (choice.inner.size() > 1) return choice;
    return std::move(choice.inner.front());
  }

  GbnfNode ParseSequence(int depth) {
    GbnfNode sequence{.kind = GbnfNode::Kind::kSequence};
    // Behind a bar, too, the line may break.
    SkipSpace(depth > 0 || FollowsBar());
    while (status_.ok() && !AtEnd() && IsElementAhead()) {
      sequence.inner.push_back(ParseElement(depth));
      if (status_.ok()) ParseRepeats(sequence);
      SkipSpace(depth > 0);
    }
    return sequence;
  }

  bool FollowsBar() const { return at_ > 0 && text_[at_ - 1] == '|'; }

  bool IsElementAhead() {
    const char c = Peek();
    if (c == '<' || c == '!') {
      FailUnimplemented("tokens in grammars (<...>) are not kept; write their text");
      return false;
    }
    if (!IsNameByte(c)) return c == '"' || c == '[' || c == '(' || c == '.';
    return !IsRuleAhead();
  }

  // Whether a rule is defined here: only possible where a line break came before.
  bool IsRuleAhead() const {
    size_t at = at_;
    while (at < text_.size() && IsNameByte(text_[at])) ++at;
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) ++at;
    return text_.substr(at, 3) == "::=";
  }

  GbnfNode ParseElement(int depth) {
    const size_t begin = at_;
    if (Take("\"")) return ParseLiteral();
    if (Take("[")) return ParseSet();
    if (Take(".")) return {.kind = GbnfNode::Kind::kSet, .set = AllCodePoints()};
    if (Take("(")) {
      SkipSpace(/*newlines=*/true);
      GbnfNode inner = ParseChoice(depth + 1);
      SkipSpace(/*newlines=*/true);
      if (status_.ok() && !Take(")")) FailAt(begin, "this parenthesis is not closed");
      return inner;
    }
    const std::string name = ParseName();
    return {.kind = GbnfNode::Kind::kRule, .rule = RuleNamed(name, begin)};
  }

  // One character of a literal or set, escaped or not.
  uint32_t ParseCharacter() {
    const auto lead = static_cast<unsigned char>(Peek());
    if (lead == '\\') return ParseEscape();
    const int length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead >= 0x80 && (lead < 0xC2 || lead > 0xF4 || at_ + length > text_.size())) {
      Fail("this is not UTF-8");
      return 0;
    }
    uint32_t code = length == 1 ? lead : lead & (0x7F >> length);
    for (int i = 1; i < length; ++i) {
      const auto byte = static_cast<unsigned char>(text_[at_ + i]);
      if ((byte & 0xC0) != 0x80) Fail("this is not UTF-8");
      code = code << 6 | (byte & 0x3F);
    }
    if (!IsCharacter(code)) Fail("this is not UTF-8");
    at_ += length;
    return code;
  }

  uint32_t ParseEscape() {
    ++at_;
    if (AtEnd()) {
      Fail(Unexpected());
      return 0;
    }
    const char c = text_[at_++];
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return ParseHex(2);
      case 'u':
        return ParseHex(4);
      case 'U':
        return ParseHex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<unsigned char>(c);
      default:
        --at_;
        Fail(
            "unknown escape; accepted: \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xNN \\uNNNN "
            "\\UNNNNNNNN");
        return 0;
    }
  }

  uint32_t ParseHex(int digits) {
    uint32_t code = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = Peek();
      const int value = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (value < 0) {
        Fail(Message("expected ", digits, " hexadecimal digits"));
        return 0;
      }
      code = code << 4 | static_cast<uint32_t>(value);
      ++at_;
    }
    if (!IsCharacter(code)) Fail("this is no character");
    return code;
  }

  GbnfNode ParseLiteral() {
    GbnfNode literal{.kind = GbnfNode::Kind::kLiteral};
    const size_t begin = at_ - 1;
    while (status_.ok() && !Take("\"")) {
      if (AtEnd() || Peek() == '\n') {
        FailAt(begin, "this literal is not closed");
        break;
      }
      AppendUtf8(ParseCharacter(), literal.text);
    }
    return literal;
  }

  GbnfNode ParseSet() {
    const size_t begin = at_ - 1;
    const bool negated = Take("^");
    std::vector<CodeRange> ranges;
    while (status_.ok() && !Take("]")) {
      if (AtEnd()) {
        FailAt(begin, "this set is not closed");
        break;
      }
      CodeRange range;
      range.first = range.last = ParseCharacter();
      if (Peek() == '-' && text_.substr(at_, 2) != "-]") {
        ++at_;
        if (!AtEnd()) range.last = ParseCharacter();
        if (range.last < range.first) Fail("a range that ends before it begins");
      }
      ranges.push_back(range);
    }
    CodeSet set = MakeCodeSet(std::move(ranges));
    if (negated) set = Complement(set);
    if (status_.ok() && set.empty()) FailAt(begin, "this set has no character");
    return {.kind = GbnfNode::Kind::kSet, .set = std::move(set)};
  }

  // * + ? {m} {m,} {m,n} behind the last element of a sequence; several are one in the other.
  void ParseRepeats(GbnfNode& sequence) {
    for (int i = 0; status_.ok(); ++i) {
      SkipSpace(/*newlines=*/false);
      GbnfNode repeat{.kind = GbnfNode::Kind::kRepeat};
      if (!ParseRepeat(repeat)) return;
      if (i >= kMostRepeatsOfElement) return Fail("too many repetitions of one element");
      repeat.inner.push_back(std::move(sequence.inner.back()));
      sequence.inner.back() = std::move(repeat);
    }
  }

  bool ParseRepeat(GbnfNode& repeat) {
    repeat.max = ExprSpace::kUnbounded;
    if (Take("*")) return true;
    if (Take("+")) {
      repeat.min = 1;
      return true;
    }
    if (Take("?")) {
      repeat.max = 1;
      return true;
    }
    if (!Take("{")) return false;
    SkipSpace(/*newlines=*/false);
    repeat.min = ParseNumber();
    SkipSpace(/*newlines=*/false);
    if (!Take(",")) {
      repeat.max = repeat.min;
    } else {
      SkipSpace(/*newlines=*/false);
      if (Peek() != '}') repeat.max = ParseNumber();
      SkipSpace(/*newlines=*/false);
    }
    if (status_.ok() && !Take("}")) Fail("expected }");
    if (status_.ok() && repeat.max < repeat.min) Fail("at most fewer times than at least");
    return true;
  }

  uint32_t ParseNumber() {
    const size_t begin = at_;
    uint64_t number = 0;
    while (Peek() >= '0' && Peek() <= '9' && number <= limits_.max_repeat) {
      number = number * 10 + static_cast<uint64_t>(text_[at_++] - '0');
    }
    if (at_ == begin) Fail("expected a number");
    if (number > limits_.max_repeat) {
      status_.Update(absl::ResourceExhaustedError(
          Message(Place(begin), "repeated more than ", limits_.max_repeat, " times")));
    }
    return static_cast<uint32_t>(number);
  }

  void CheckRules() {
    for (size_t i = 0; i < document_.rules.size(); ++i) {
      if (defined_at_[i] != kNotDefined) continue;
      return FailAt(used_at_[i], Message("the rule ", document_.rules[i].name, " is not defined"));
    }
    if (ids_.contains("root")) return;
    status_ = absl::InvalidArgumentError("the rule root is not defined: texts begin there");
  }

  const std::string_view text_;
  const GbnfLimits& limits_;
  size_t at_ = 0;
  absl::Status status_;
  GbnfDocument document_;
  absl::flat_hash_map<std::string, uint32_t> ids_;
  std::vector<uint32_t> defined_at_;
  std::vector<size_t> used_at_;
};

}  // namespace

absl::StatusOr<GbnfDocument> ParseGbnf(std::string_view text, const GbnfLimits& limits) {
  return Parser(text, limits).Parse();
}

}  // namespace sluice
