#include "services/tokenizer/regex/regex_dialect.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "services/tokenizer/regex/regex_properties.h"
#include "services/tokenizer/text/strings.h"

namespace sluice {
namespace {

constexpr size_t kNone = std::string_view::npos;
constexpr int kMaxSetDepth = 16;

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (at_ < in_.size() && status_.ok()) Step();
    if (!status_.ok()) return status_;
    return std::move(out_);
  }

 private:
  void Step() {
    switch (in_[at_]) {
      case '\\':
        BeginAtom();
        return Escape();
      case '[':
        BeginAtom();
        out_ += '[';
        ++at_;
        if (Take('^')) out_ += '^';
        Set();
        out_ += ']';
        return;
      case '(':
        return OpenGroup();
      case ')':
        if (!groups_.empty()) {
          atom_ = groups_.back();
          quantified_ = false;
          groups_.pop_back();
        }
        return Copy(1);
      case '*':
      case '+':
      case '?':
        BeginQuantifier();
        Copy(1);
        if (Peek() == '+' || Peek() == '?') Copy(1);
        return;
      case '{':
        return Interval();
      case '|':
      case '^':
      case '$':
        atom_ = kNone;
        return Copy(1);
      default:
        BeginAtom();
        return CopyChar();
    }
  }

  char Peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  void BeginAtom() {
    atom_ = out_.size();
    quantified_ = false;
  }
  void Copy(size_t num_bytes) {
    out_ += in_.substr(at_, num_bytes);
    at_ = std::min(at_ + num_bytes, in_.size());
  }
  void CopyChar() {
    Copy(1);
    while (at_ < in_.size() && (static_cast<unsigned char>(in_[at_]) & 0xC0) == 0x80) Copy(1);
  }
  void Unsupported(std::string_view what) {
    status_ = absl::UnimplementedError(
        StrCat("the regular expression \"", in_, "\" has ", what, " at byte ", at_));
  }

  // At '('. Copies the start of the group, so that what follows is its content.
  void OpenGroup() {
    groups_.push_back(out_.size());
    Copy(1);
    atom_ = kNone;
    if (Peek() != '?') return;
    Copy(1);
    if (Peek() == '#') {  // a comment up to ')'
      while (at_ < in_.size() && Peek() != ')') Copy(1);
      return;
    }
    // Options such as (?im-x: or (?i). Ruby's m is what PCRE2 calls s.
    while (Peek() == 'i' || Peek() == 'm' || Peek() == 'x' || Peek() == '-') {
      out_ += Peek() == 'm' ? 's' : Peek();
      ++at_;
    }
    // (?: (?= (?! (?> (?<= (?<! and (?<name>
    if (Peek() == ':' || Peek() == '=' || Peek() == '!' || Peek() == '>') return Copy(1);
    if (Peek() == '<') Copy(Peek(1) == '=' || Peek(1) == '!' ? 2 : 1);
  }

  // At '{': an interval, or a brace that stands for itself.
  void Interval() {
    const size_t end = in_.find('}', at_);
    const std::string_view body =
        end == kNone ? std::string_view() : in_.substr(at_ + 1, end - at_ - 1);
    const size_t comma = body.find(',');
    const std::string_view min = body.substr(0, comma);
    const std::string_view max = comma == kNone ? std::string_view() : body.substr(comma + 1);
    const bool is_interval = IsDigits(min) && IsDigits(max) && !(min.empty() && max.empty());
    if (atom_ == kNone || !is_interval) {
      BeginAtom();
      out_ += "\\{";
      ++at_;
      return;
    }
    BeginQuantifier();
    at_ = end + 1;
    StrAppend(&out_, "{", min.empty() ? "0" : min, comma == kNone ? "" : ",", max, "}");
    if (Peek() == '?' && comma != kNone) Copy(1);
  }

  // PCRE2 does not repeat what is repeated, unless in a group.
  void BeginQuantifier() {
    if (atom_ != kNone && quantified_) {
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
    quantified_ = true;
  }

  static bool IsDigits(std::string_view text) {
    for (const char c : text) {
      if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
    }
    return true;
  }

  // At a backslash outside a set.
  void Escape() {
    const char c = Peek(1);
    switch (c) {
      case 'b':
      case 'B':
        atom_ = kNone;
        WordBoundary(c == 'B');
        at_ += 2;
        return;
      case 's':
      case 'w':
      case 'h':
        StrAppend(&out_, "[", SetOfEscape(c), "]");
        at_ += 2;
        return;
      case 'S':
      case 'W':
      case 'H':
        StrAppend(&out_, "[^", SetOfEscape(absl::ascii_tolower(c)), "]");
        at_ += 2;
        return;
      case 'p':
      case 'P':
        if (const std::optional<Property> property = TakeProperty()) {
          StrAppend(&out_, property->negated ? "[^" : "[", property->set, "]");
        }
        return;
      default:
        return PlainEscape();
    }
  }

  // A place with a word character on one side only; negated: on both sides or none.
  void WordBoundary(bool negated) {
    const std::string_view word = SetOfEscape('w');
    StrAppend(&out_, "(?:(?<=[", word, "])", negated ? "(?=[" : "(?![", word, "])|(?<![", word,
              "])", negated ? "(?![" : "(?=[", word, "]))");
  }

  // An escape that means the same inside a set, outside it and in PCRE2.
  void PlainEscape() {
    const char c = Peek(1);
    if (c == 'u') {
      StrAppend(&out_, "\\x{", in_.substr(std::min(at_ + 2, in_.size()), 4), "}");
      at_ = std::min(at_ + 6, in_.size());
      return;
    }
    Copy(1);
    CopyChar();
    if (c == 'x') {
      if (Peek() == '{') {
        while (at_ < in_.size() && Peek() != '}') Copy(1);
        return Copy(1);
      }
      for (int i = 0; i < 2 && absl::ascii_isxdigit(static_cast<unsigned char>(Peek())); ++i)
        Copy(1);
    } else if (absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      while (absl::ascii_isdigit(static_cast<unsigned char>(Peek()))) Copy(1);
    } else if ((c == 'k' || c == 'g') && Peek() == '<') {
      while (at_ < in_.size() && Peek() != '>') Copy(1);
      Copy(1);
    }
  }

  struct Property {
    std::string set;  // what to put between brackets
    bool negated;
  };

  // At \p or \P. nullopt once an error is recorded.
  std::optional<Property> TakeProperty() {
    bool negated = Peek(1) == 'P';
    at_ += 2;
    std::string_view name = in_.substr(std::min(at_, in_.size()), 1);
    size_t end = at_ + name.size();
    if (name == "{") {
      const size_t close = in_.find('}', at_);
      if (close == kNone) {
        status_ = absl::InvalidArgumentError(
            StrCat("the regular expression \"", in_, "\" has no '}' for the '{' at byte ", at_));
        return std::nullopt;
      }
      name = in_.substr(at_ + 1, close - at_ - 1);
      end = close + 1;
    }
    if (!name.empty() && name.front() == '^') {
      negated = !negated;
      name.remove_prefix(1);
    }
    at_ = end;
    return Property{SetOfProperty(name), negated};
  }

  // The content of a set, up to and with its ']'. A ']' that comes first stands for itself.
  void Set() {
    bool first = true;
    while (at_ < in_.size() && status_.ok()) {
      const char c = Peek();
      if (c == ']' && !first) {
        ++at_;
        return;
      }
      first = false;
      if (c == '[') {
        NestedSet();
      } else if (c == '&' && Peek(1) == '&') {
        Unsupported("an intersection (&&)");
      } else if (c == '\\') {
        SetEscape();
      } else if (c == ']') {
        out_ += "\\]";
        ++at_;
      } else {
        CopyChar();
      }
    }
  }

  // At '[' within a set: a named class such as [:alpha:], or a set to unite with.
  void NestedSet() {
    if (Peek(1) == ':') {
      const size_t end = in_.find(":]", at_ + 2);
      if (end != kNone) {
        if (Peek(2) == '^') return Unsupported("a negated named class inside a set");
        out_ += SetOfBracketName(in_.substr(at_ + 2, end - at_ - 2));
        at_ = end + 2;
        return GuardHyphen();
      }
    }
    ++at_;
    if (Peek() == '^') return Unsupported("a negated set inside a set");
    if (++set_depth_ > kMaxSetDepth) return Unsupported("too many sets inside sets");
    Set();
    --set_depth_;
    GuardHyphen();
  }

  void SetEscape() {
    const char c = Peek(1);
    if (c == 's' || c == 'w' || c == 'h') {
      out_ += SetOfEscape(c);
      at_ += 2;
      GuardHyphen();
    } else if (c == 'S') {
      out_ += NotWhitespaceSet();
      at_ += 2;
      GuardHyphen();
    } else if (c == 'W' || c == 'H') {
      Unsupported(StrCat("\\", std::string(1, c), " inside a set"));
    } else if (c == 'p' || c == 'P') {
      SetProperty();
    } else {
      PlainEscape();
    }
  }

  void SetProperty() {
    const std::optional<Property> property = TakeProperty();
    if (!property.has_value()) return;
    if (!property->negated) {
      out_ += property->set;
    } else if (const std::string negation = NegatedSet(property->set); !negation.empty()) {
      out_ += negation;
    } else {
      Unsupported("a negated property of several parts inside a set");
    }
    GuardHyphen();
  }

  // A '-' after something that is no single character stands for itself.
  void GuardHyphen() {
    if (Peek() == '-') {
      out_ += "\\-";
      ++at_;
    }
  }

  const std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = kNone;         // where in out_ the last thing that can be repeated begins
  bool quantified_ = false;     // whether that is repeated already
  std::vector<size_t> groups_;  // where in out_ the open groups begin
  int set_depth_ = 0;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern) {
  return Translator(pattern).Run();
}

}  // namespace sluice
