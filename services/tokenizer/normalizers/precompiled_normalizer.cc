#include "services/tokenizer/normalizers/precompiled_normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "services/tokenizer/normalizers/chars_map.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/strings.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

// Longer graphemes are replaced character by character.
constexpr size_t kMaxGraphemeBytes = 5;

// The end of the grapheme that begins at `begin`.
size_t GraphemeEnd(const MappedText& whole, size_t begin) {
  const std::string_view text = whole.text();
  utf8proc_int32_t state = 0;
  Utf8Char c = ReadUtf8(text, begin);
  size_t end = begin + c.length;
  while (end < text.size() && whole.Pass(1)) {
    const Utf8Char next = ReadUtf8(text, end);
    if (c.code_point < 0x80 && next.code_point < 0x80 && c.code_point != '\r') break;
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(c.code_point),
                                         static_cast<utf8proc_int32_t>(next.code_point), &state)) {
      break;
    }
    c = next;
    end += c.length;
  }
  return end;
}

class PrecompiledNormalizer : public Normalizer {
 public:
  explicit PrecompiledNormalizer(CharsMap map) : map_(std::move(map)) {}

  void Normalize(MappedText* text) const override {
    const std::string_view old = text->text();
    TextRewriter rewriter(*text);
    bool modified = false;
    for (size_t begin = 0; begin < old.size();) {
      const size_t end = GraphemeEnd(*text, begin);
      modified |= NormalizeGrapheme(*text, begin, end, &rewriter);
      begin = end;
    }
    if (modified) rewriter.Replace(text);
  }

 private:
  bool NormalizeGrapheme(const MappedText& text, size_t begin, size_t end,
                         TextRewriter* rewriter) const {
    if (end - begin <= kMaxGraphemeBytes && Put(begin, end, rewriter)) return true;
    bool modified = false;
    for (size_t at = begin; at < end && text.Pass(1);) {
      const size_t char_end = at + ReadUtf8(rewriter->old_text(), at).length;
      if (Put(at, char_end, rewriter)) {
        modified = true;
      } else {
        rewriter->Keep(at, char_end);
      }
      at = char_end;
    }
    return modified;
  }

  // Puts in the replacement of the shortest beginning, which stands for all of [begin, end).
  bool Put(size_t begin, size_t end, TextRewriter* rewriter) const {
    const auto match = map_.Shortest(rewriter->old_text().substr(begin, end - begin));
    if (match.has_value()) rewriter->Put(match->replacement, begin, end);
    return match.has_value();
  }

  const CharsMap map_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Normalizer>> PrecompiledNormalizerFromJson(const JsonPlace& place) {
  const JsonPlace text = place.Member("precompiled_charsmap");
  std::string bytes;
  if (!text.value->is_string() ||
      !absl::Base64Unescape(text.value->get_ref<const std::string&>(), &bytes)) {
    return text.Reject("a character map in base64");
  }
  absl::StatusOr<CharsMap> map = CharsMap::Parse(bytes);
  if (!map.ok()) return text.Annotate(map.status());
  return std::make_unique<PrecompiledNormalizer>(*std::move(map));
}

}  // namespace sluice
