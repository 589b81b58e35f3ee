#include "services/tokenizer/normalizers/char_normalizers.h"

#include <utf8proc.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/tokenizer/normalizers/unicode_normalizer.h"
#include "services/tokenizer/text/char_class.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

// A character becomes what kMap appends to its last argument: it returns false to keep the
// character as it is.
template <bool (*kMap)(char32_t, std::string*)>
class CharNormalizer : public Normalizer {
 public:
  void Normalize(MappedText* text) const override {
    std::optional<TextRewriter> rewriter;
    const std::string_view old = text->text();
    std::string mapped;
    size_t kept = 0;
    for (size_t at = 0; at < old.size();) {
      const Utf8Char c = ReadUtf8(old, at);
      if (!text->Pass(c.length)) return;
      mapped.clear();
      if (kMap(c.code_point, &mapped)) {
        if (!rewriter.has_value()) rewriter.emplace(*text);
        rewriter->Keep(kept, at);
        rewriter->Put(mapped, at, at + c.length);
        kept = at + c.length;
      }
      at += c.length;
    }
    if (!rewriter.has_value()) return;
    rewriter->Keep(kept, old.size());
    rewriter->Replace(text);
  }
};

bool Lowercase(char32_t c, std::string* out) {
  if (c < 0x80) {
    if (c < 'A' || c > 'Z') return false;
    out->push_back(static_cast<char>(c - 'A' + 'a'));
    return true;
  }
  // The only character whose lower case is two.
  if (c == 0x130) {
    out->append("i\u0307");
    return true;
  }
  const auto lower = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  if (lower == c) return false;
  AppendUtf8(lower, out);
  return true;
}

bool DropMark(char32_t c, std::string*) { return IsMark(c); }

bool DropNonspacingMark(char32_t c, std::string*) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_MN;
}

bool Nmt(char32_t c, std::string* out) {
  if ((c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
      c == 0x9F) {
    return true;
  }
  const bool blank = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  if (blank) out->push_back(' ');
  return blank;
}

// Of category Cc, Cf or Co: what the Rust library, too, calls other.
bool IsOther(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return true;
    default:
      return false;
  }
}

bool BertClean(char32_t c, std::string* out) {
  const bool is_space = IsWhitespace(c);
  const bool stays = c == '\t' || c == '\n' || c == '\r';
  if (c == 0 || c == 0xFFFD || (!stays && IsOther(c))) return true;
  if (is_space) out->push_back(' ');
  return is_space;
}

bool IsCjkIdeograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool SetIdeographsApart(char32_t c, std::string* out) {
  if (!IsCjkIdeograph(c)) return false;
  out->push_back(' ');
  AppendUtf8(c, out);
  out->push_back(' ');
  return true;
}

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}

  void Normalize(MappedText* text) const override {
    const std::string_view old = text->text();
    size_t begin = 0;
    size_t end = old.size();
    while (left_ && begin < end && IsWhitespace(ReadUtf8(old, begin).code_point)) {
      begin += ReadUtf8(old, begin).length;
      if (!text->Pass(1)) return;
    }
    while (right_ && end > begin && IsWhitespace(ReadUtf8Before(old, end).code_point)) {
      end -= ReadUtf8Before(old, end).length;
      if (!text->Pass(1)) return;
    }
    if (end - begin == old.size()) return;
    TextRewriter rewriter(*text);
    rewriter.Keep(begin, end);
    rewriter.Replace(text);
  }

 private:
  const bool left_;
  const bool right_;
};

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(std::vector<std::unique_ptr<Normalizer>> steps)
      : steps_(std::move(steps)) {}

  void Normalize(MappedText* text) const override {
    for (const auto& step : steps_) {
      step->Normalize(text);
      if (!text->Pass(0)) return;  // the next must not see half a map
    }
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

}  // namespace

std::unique_ptr<Normalizer> MakeLowercaseNormalizer() {
  return std::make_unique<CharNormalizer<Lowercase>>();
}

std::unique_ptr<Normalizer> MakeStripAccentsNormalizer() {
  return std::make_unique<CharNormalizer<DropMark>>();
}

std::unique_ptr<Normalizer> MakeNmtNormalizer() { return std::make_unique<CharNormalizer<Nmt>>(); }

absl::StatusOr<std::unique_ptr<Normalizer>> StripNormalizerFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  const bool left = fields.RequiredBool("strip_left");
  const bool right = fields.RequiredBool("strip_right");
  if (!fields.status().ok()) return fields.status();
  return std::make_unique<StripNormalizer>(left, right);
}

absl::StatusOr<std::unique_ptr<Normalizer>> BertNormalizerFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  const bool clean_text = fields.RequiredBool("clean_text");
  const bool handle_chinese_chars = fields.RequiredBool("handle_chinese_chars");
  const bool lowercase = fields.RequiredBool("lowercase");
  const bool strip_accents = fields.Bool("strip_accents").value_or(lowercase);
  if (!fields.status().ok()) return fields.status();
  std::vector<std::unique_ptr<Normalizer>> steps;
  if (clean_text) steps.push_back(std::make_unique<CharNormalizer<BertClean>>());
  if (handle_chinese_chars) steps.push_back(std::make_unique<CharNormalizer<SetIdeographsApart>>());
  if (strip_accents) {
    steps.push_back(MakeUnicodeNormalizer(NormalizationForm::kNfd));
    steps.push_back(std::make_unique<CharNormalizer<DropNonspacingMark>>());
  }
  if (lowercase) steps.push_back(MakeLowercaseNormalizer());
  return std::make_unique<BertNormalizer>(std::move(steps));
}

}  // namespace sluice
