#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/arguments.h"
#include "services/tokenizer/jinja/filters.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/operators.h"
#include "services/tokenizer/jinja/python_text.h"
#include "services/tokenizer/jinja/text_operations.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

bool RequireText(Run& run, const Value& value) {
  if (value.IsString()) return true;
  if (value.IsUndefined()) {
    run.FailUndefined(value);
  } else {
    run.TypeError(absl::StrCat("expected str, not ", TypeName(value)));
  }
  return false;
}

Value Indent(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_indent", arguments, {"width", "first", "blank"}, 0);
  if (run.failed() || !RequireText(run, value)) return Value();
  Text indention;
  if (bound[0].IsString()) {
    indention = bound[0].text();
  } else {
    const Value spaces = RepeatText(run, Text(" "), bound.Integer(0, 4));
    if (run.failed()) return Value();
    indention = spaces.text();
  }
  Text text = value.text();
  text.Append("\n");
  const bool with_blank = bound.Flag(2, false);
  Text out;
  bool is_first = true;
  for (const Text& line : SplitLines(run, text, false)) {
    if (!run.CheckMemory(out.size() + indention.size() + line.size()) ||
        !run.StepBytes(indention.size())) {
      return Value();
    }
    if (!is_first) out.Append("\n");
    const bool indents = is_first ? bound.Flag(1, false) : with_blank || !line.empty();
    if (indents) out.Append(indention);
    out.Append(line);
    is_first = false;
  }
  return run.String(std::move(out));
}

Value Truncate(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_truncate", arguments, {"length", "killwords", "end", "leeway"}, 0);
  const Int length = bound.Integer(0, 255);
  const Text end = bound.String(2, "...");
  const Int leeway = bound[3].IsNone() ? 5 : bound.Integer(3, 5);
  const auto end_length = static_cast<Int>(CountChars(end.bytes()));
  if (run.failed()) return Value();
  if (length < end_length) {
    return run.Fail(Error::Kind::kRuntime,
                    absl::StrCat("expected length >= ", IntToString(end_length), ", got ",
                                 IntToString(length)));
  }
  if (leeway < 0) {
    return run.Fail(Error::Kind::kRuntime,
                    absl::StrCat("expected leeway >= 0, got ", IntToString(leeway)));
  }
  if (Length(run, value) <= length + leeway || !RequireText(run, value)) return value;
  const size_t kept = ByteOfChar(value.bytes(), static_cast<size_t>(length - end_length));
  Text out = value.text().Part(0, kept);
  if (!bound.Flag(1, false)) {
    const size_t space = out.bytes().rfind(' ');
    if (space != std::string::npos) out = out.Part(0, space);
  }
  out.Append(end);
  return run.String(std::move(out));
}

Value Center(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_center", arguments, {"width"}, 0);
  const Int width = bound.Integer(0, 80);
  if (run.failed()) return Value();
  return run.String(Justified(run, Str(run, value), width, Text(" "), Side::kBoth));
}

Value WordCount(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_wordcount", arguments, {}, 0);
  const Text text = Str(run, value);
  Int words = 0;
  bool in_word = false;
  if (!run.StepBytes(text.size())) return Value();
  for (size_t at = 0; at < text.size();) {
    const Char c = ReadChar(text.bytes(), at);
    const bool is_word = IsWordChar(c.code_point);
    if (is_word && !in_word) ++words;
    in_word = is_word;
    at += c.length;
  }
  return Value::Integer(words);
}

// Python's textwrap, of one paragraph.
class Wrapper {
 public:
  struct Options {
    size_t width;
    bool breaks_long_words;
    bool breaks_on_hyphens;
  };
  Wrapper(Run& run, const Text& text, const Options& options)
      : run_(run), text_(text), options_(options) {}

  std::vector<Text> Lines() {
    Chunk();
    while (next_ < chunks_.size() && run_.Step()) Line();
    return std::move(lines_);
  }

 private:
  struct Piece {
    size_t begin;
    size_t end;
    size_t length;  // characters
    bool is_space;
  };

  static bool IsWrapSpace(char32_t c) { return (c >= 9 && c <= 13) || c == ' '; }

  // Words, with their hyphens, and the white space between them.
  void Chunk() {
    const std::string& bytes = text_.bytes();
    Piece piece{0, 0, 0, false};
    char32_t before = 0;
    bool has_letter = false;
    for (size_t at = 0; at < bytes.size() && run_.Step();) {
      const Char c = ReadChar(bytes, at);
      const bool is_space = IsWrapSpace(c.code_point);
      const bool behind_hyphen =
          options_.breaks_on_hyphens && before == '-' && has_letter && IsAlpha(c.code_point);
      if (piece.length > 0 && (is_space != piece.is_space || behind_hyphen)) {
        chunks_.push_back(piece);
        piece = {at, at, 0, is_space};
        has_letter = false;
      }
      piece.is_space = is_space;
      has_letter = has_letter || IsAlpha(c.code_point);
      before = c.code_point;
      at += c.length;
      piece.end = at;
      ++piece.length;
    }
    if (piece.length > 0) chunks_.push_back(piece);
  }

  void Line() {
    if (chunks_[next_].is_space && !lines_.empty()) ++next_;
    size_t used = 0;
    std::vector<Piece> line;
    while (next_ < chunks_.size() && used + chunks_[next_].length <= options_.width) {
      used += chunks_[next_].length;
      line.push_back(chunks_[next_++]);
    }
    if (next_ < chunks_.size() && chunks_[next_].length > options_.width) BreakWord(used, &line);
    if (!line.empty() && line.back().is_space) line.pop_back();
    if (line.empty()) return;
    lines_.push_back(text_.Part(line.front().begin, line.back().end));
  }

  void BreakWord(size_t used, std::vector<Piece>* line) {
    Piece& word = chunks_[next_];
    const size_t room = options_.width - used;
    if (options_.breaks_long_words && room > 0) {
      const std::string_view rest = std::string_view(text_.bytes()).substr(word.begin);
      const size_t end = word.begin + ByteOfChar(rest, room);
      line->push_back({word.begin, end, room, word.is_space});
      word.begin = end;
      word.length -= room;
    } else if (!options_.breaks_long_words && line->empty()) {
      line->push_back(word);
      ++next_;
    }
  }

  Run& run_;
  const Text& text_;
  const Options options_;
  std::vector<Piece> chunks_;
  size_t next_ = 0;
  std::vector<Text> lines_;
};

Value WordWrap(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_wordwrap", arguments,
                    {"width", "break_long_words", "wrapstring", "break_on_hyphens"}, 0);
  const Int width = bound.Integer(0, 79);
  const Text wrap = bound[2].IsNone() ? Text("\n") : bound.String(2, "\n");
  const Wrapper::Options options{static_cast<size_t>(std::clamp<Int>(width, 0, Int{1} << 40)),
                                 bound.Flag(1, true), bound.Flag(3, true)};
  if (run.failed() || !RequireText(run, value)) return Value();
  if (width <= 0) {
    return run.ValueError(absl::StrCat("invalid width ", IntToString(width), " (must be > 0)"));
  }
  std::vector<Text> lines;
  for (const Text& paragraph : SplitLines(run, value.text(), false)) {
    lines.push_back(JoinTexts(run, wrap, Wrapper(run, paragraph, options).Lines()));
  }
  return run.String(JoinTexts(run, wrap, lines));
}

constexpr std::array<FilterEntry, 5> kLayoutFilters = {{
    {"indent", Indent},
    {"truncate", Truncate},
    {"center", Center},
    {"wordcount", WordCount},
    {"wordwrap", WordWrap},
}};

}  // namespace

Filter FindLayoutFilter(std::string_view name) { return FindIn(kLayoutFilters, name); }

}  // namespace sluice::jinja
