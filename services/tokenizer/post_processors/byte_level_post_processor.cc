#include "services/tokenizer/post_processors/byte_level_post_processor.h"

#include <optional>

#include "services/tokenizer/text/byte_alphabet.h"
#include "services/tokenizer/text/char_class.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

// Whether the character is whitespace or the byte-level alphabet's space.
bool IsSpace(char32_t c) {
  static const char32_t alphabet_space = ReadUtf8(ByteToAlphabet(' '), 0).code_point;
  return c == alphabet_space || IsWhitespace(c);
}

uint32_t CountLeadingSpaces(std::string_view token) {
  uint32_t count = 0;
  for (size_t at = 0; at < token.size(); ++count) {
    const Utf8Char c = ReadUtf8(token, at);
    if (!IsSpace(c.code_point)) break;
    at += c.length;
  }
  return count;
}

uint32_t CountTrailingSpaces(std::string_view token) {
  uint32_t count = 0;
  for (size_t end = token.size(); end > 0; ++count) {
    const Utf8Char c = ReadUtf8Before(token, end);
    if (!IsSpace(c.code_point)) break;
    end -= c.length;
  }
  return count;
}

// A space of the token counts as a character of the text.
void Trim(std::string_view text, std::string_view token, bool may_be_made_up, ByteRange* range) {
  uint32_t leading = CountLeadingSpaces(token);
  // A single space at the start is the one that add_prefix_space made up.
  if (may_be_made_up && leading == 1) leading = 0;
  for (; leading > 0 && range->begin < range->end; --leading) {
    range->begin += ReadUtf8(text, range->begin).length;
  }
  uint32_t trailing = CountTrailingSpaces(token);
  for (; trailing > 0 && range->begin < range->end; --trailing) {
    range->end -= ReadUtf8Before(text, range->end).length;
  }
}

class ByteLevelPostProcessor : public PostProcessor {
 public:
  ByteLevelPostProcessor(bool trim_offsets, bool add_prefix_space)
      : trim_offsets_(trim_offsets), add_prefix_space_(add_prefix_space) {}

  void Process(const Input& input, Encoding* encoding) const override {
    if (trim_offsets_) TrimOffsets(input, add_prefix_space_, encoding);
  }

 private:
  const bool trim_offsets_;
  const bool add_prefix_space_;
};

}  // namespace

void TrimOffsets(const PostProcessor::Input& input, bool add_prefix_space, Encoding* encoding) {
  for (size_t i = 0; i < encoding->offsets.size(); ++i) {
    ByteRange& range = encoding->offsets[i];
    const bool may_be_made_up = add_prefix_space && (i == 0 || range.begin == 0);
    Trim(input.text, input.token_text(encoding->ids[i], range), may_be_made_up, &range);
  }
}

absl::StatusOr<std::unique_ptr<PostProcessor>> ByteLevelPostProcessorFromJson(
    const JsonPlace& place) {
  JsonFields fields = place.Fields();
  const std::optional<bool> trim_offsets = fields.Bool("trim_offsets");
  if (!trim_offsets.has_value()) fields.Reject("trim_offsets", "true or false");
  const std::optional<bool> add_prefix_space = fields.Bool("add_prefix_space");
  if (!add_prefix_space.has_value()) fields.Reject("add_prefix_space", "true or false");
  if (!fields.status().ok()) return fields.status();
  return std::make_unique<ByteLevelPostProcessor>(*trim_offsets, *add_prefix_space);
}

}  // namespace sluice
