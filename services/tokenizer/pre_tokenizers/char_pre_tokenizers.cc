#include "services/tokenizer/pre_tokenizers/char_pre_tokenizers.h"

#include <optional>
#include <string>
#include <utility>

#include "services/tokenizer/pre_tokenizers/delimiters.h"
#include "services/tokenizer/regex/unicode_scripts.h"
#include "services/tokenizer/text/char_class.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

// Splits at the characters for which `is_delimiter` holds, each a delimiter by itself.
template <typename IsDelimiter>
absl::Status SplitAtChars(const Piece& piece, DelimiterBehavior behavior, IsDelimiter is_delimiter,
                          PieceSink sink) {
  DelimiterSplitter splitter(behavior, piece, sink);
  size_t others_begin = 0;
  for (size_t at = 0; at < piece.text.size();) {
    const Utf8Char c = ReadUtf8(piece.text, at);
    const size_t end = at + c.length;
    if (absl::Status status = piece.Pass(c.length); !status.ok()) return status;
    if (is_delimiter(c.code_point)) {
      if (others_begin < at) {
        if (auto status = splitter.Add(others_begin, at, false); !status.ok()) return status;
      }
      if (auto status = splitter.Add(at, end, true); !status.ok()) return status;
      others_begin = end;
    }
    at = end;
  }
  if (others_begin < piece.text.size()) {
    auto status = splitter.Add(others_begin, piece.text.size(), false);
    if (!status.ok()) return status;
  }
  return splitter.Finish();
}

template <bool (*kIsDelimiter)(char32_t)>
class CharClassPreTokenizer : public PreTokenizer {
 public:
  explicit CharClassPreTokenizer(DelimiterBehavior behavior) : behavior_(behavior) {}

 private:
  absl::Status SplitText(const Piece& piece, RegexScratch&, PieceSink sink) const override {
    return SplitAtChars(piece, behavior_, kIsDelimiter, sink);
  }

  const DelimiterBehavior behavior_;
};

class CharDelimiterPreTokenizer : public PreTokenizer {
 public:
  explicit CharDelimiterPreTokenizer(char32_t delimiter) : delimiter_(delimiter) {}

 private:
  absl::Status SplitText(const Piece& piece, RegexScratch&, PieceSink sink) const override {
    const auto is_delimiter = [this](char32_t c) { return c == delimiter_; };
    return SplitAtChars(piece, DelimiterBehavior::kRemoved, is_delimiter, sink);
  }

  const char32_t delimiter_;
};

class BertPreTokenizer : public PreTokenizer {
 private:
  absl::Status SplitText(const Piece& piece, RegexScratch&, PieceSink sink) const override {
    return SplitAtChars(piece, DelimiterBehavior::kRemoved, IsWhitespace, [&](const Piece& word) {
      return SplitAtChars(word, DelimiterBehavior::kIsolated, IsPunctuation, sink);
    });
  }
};

// Splits where what `kind_of` says of a character changes.
template <typename KindOf, typename Sink>
absl::Status SplitAtChanges(const Piece& piece, KindOf kind_of, Sink sink) {
  size_t begin = 0;
  std::optional<decltype(kind_of(U' '))> last;
  for (size_t at = 0; at < piece.text.size();) {
    const Utf8Char c = ReadUtf8(piece.text, at);
    const auto kind = kind_of(c.code_point);
    if (absl::Status status = piece.Pass(c.length); !status.ok()) return status;
    if (last.has_value() && *last != kind) {
      if (auto status = sink(piece.Part(begin, at), *last); !status.ok()) return status;
      begin = at;
    }
    last = kind;
    at += c.length;
  }
  return last.has_value() ? sink(piece.Part(begin, piece.text.size()), *last) : absl::OkStatus();
}

class WhitespacePreTokenizer : public PreTokenizer {
 private:
  enum class Kind { kWord, kSpace, kOther };
  static Kind KindOf(char32_t c) {
    if (IsWordChar(c)) return Kind::kWord;
    return IsWhitespace(c) ? Kind::kSpace : Kind::kOther;
  }

  absl::Status SplitText(const Piece& piece, RegexScratch&, PieceSink sink) const override {
    return SplitAtChanges(piece, KindOf, [&](const Piece& part, Kind kind) {
      return kind == Kind::kSpace ? absl::OkStatus() : sink(part);
    });
  }
};

class UnicodeScriptsPreTokenizer : public PreTokenizer {
 private:
  // What stands before the first character of a script is left out, as in the Rust library.
  absl::Status SplitText(const Piece& piece, RegexScratch&, PieceSink sink) const override {
    UnicodeScript last = UnicodeScript::kUnknown;
    int num_runs = 0;
    const auto run_of = [&](char32_t c) {
      const UnicodeScript script = ScriptOf(c);
      if (script != UnicodeScript::kUnknown && script != last) {
        ++num_runs;
        last = script;
      }
      return num_runs;
    };
    return SplitAtChanges(piece, run_of, [&](const Piece& part, int run) {
      return run == 0 ? absl::OkStatus() : sink(part);
    });
  }

  // kUnknown for what may belong to any run.
  static UnicodeScript ScriptOf(char32_t c) {
    constexpr char32_t kProlongedSoundMark = 0x30FC;
    if (c == kProlongedSoundMark) return UnicodeScript::kHan;
    if (c == ' ') return UnicodeScript::kUnknown;
    const UnicodeScript script = UnicodeScriptOf(c);
    const bool is_kana = script == UnicodeScript::kHiragana || script == UnicodeScript::kKatakana;
    return is_kana ? UnicodeScript::kHan : script;
  }
};

class FixedLengthPreTokenizer : public PreTokenizer {
 public:
  explicit FixedLengthPreTokenizer(int length) : length_(length) {}

 private:
  absl::Status SplitText(const Piece& piece, RegexScratch&, PieceSink sink) const override {
    for (size_t begin = 0; begin < piece.text.size();) {
      size_t end = begin;
      for (int i = 0; i < length_ && end < piece.text.size(); ++i) {
        end += ReadUtf8(piece.text, end).length;
      }
      if (auto status = sink(piece.Part(begin, end)); !status.ok()) return status;
      begin = end;
    }
    return absl::OkStatus();
  }

  const int length_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreTokenizer>> DigitsPreTokenizerFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  const std::optional<bool> individual_digits = fields.Bool("individual_digits");
  if (!individual_digits.has_value()) fields.Reject("individual_digits", "true or false");
  if (!fields.status().ok()) return fields.status();
  return std::make_unique<CharClassPreTokenizer<IsNumeric>>(
      *individual_digits ? DelimiterBehavior::kIsolated : DelimiterBehavior::kContiguous);
}

absl::StatusOr<std::unique_ptr<PreTokenizer>> PunctuationPreTokenizerFromJson(
    const JsonPlace& place) {
  JsonFields fields = place.Fields();
  const auto behavior = DelimiterBehaviorFromName(fields.String("behavior").value_or("Isolated"));
  if (!behavior.has_value()) fields.Reject("behavior", std::string(kDelimiterBehaviorNames));
  if (!fields.status().ok()) return fields.status();
  return std::make_unique<CharClassPreTokenizer<IsPunctuation>>(*behavior);
}

absl::StatusOr<std::unique_ptr<PreTokenizer>> CharDelimiterPreTokenizerFromJson(
    const JsonPlace& place) {
  JsonFields fields = place.Fields();
  const std::string delimiter = fields.String("delimiter").value_or("");
  if (delimiter.empty() || ReadUtf8(delimiter, 0).length != delimiter.size()) {
    fields.Reject("delimiter", "a character");
  }
  if (!fields.status().ok()) return fields.status();
  return std::make_unique<CharDelimiterPreTokenizer>(ReadUtf8(delimiter, 0).code_point);
}

absl::StatusOr<std::unique_ptr<PreTokenizer>> FixedLengthPreTokenizerFromJson(
    const JsonPlace& place) {
  constexpr int kDefaultLength = 5;
  JsonFields fields = place.Fields();
  const int length = fields.OptionalInt("length", 1, 1 << 20).value_or(kDefaultLength);
  if (!fields.status().ok()) return fields.status();
  return std::make_unique<FixedLengthPreTokenizer>(length);
}

std::unique_ptr<PreTokenizer> MakeWhitespaceSplitPreTokenizer() {
  return std::make_unique<CharClassPreTokenizer<IsWhitespace>>(DelimiterBehavior::kRemoved);
}

std::unique_ptr<PreTokenizer> MakeBertPreTokenizer() {
  return std::make_unique<BertPreTokenizer>();
}

std::unique_ptr<PreTokenizer> MakeWhitespacePreTokenizer() {
  return std::make_unique<WhitespacePreTokenizer>();
}

std::unique_ptr<PreTokenizer> MakeUnicodeScriptsPreTokenizer() {
  return std::make_unique<UnicodeScriptsPreTokenizer>();
}

}  // namespace sluice
