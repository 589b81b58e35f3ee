// UTF-8 as RFC 3629 defines it: no surrogates, no overlong forms, nothing above U+10FFFF.
// Pure functions are thread-safe; LossyUtf8 belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

// U+2581, which SentencePiece writes in place of a space.
constexpr std::string_view kVisibleSpace = "\u2581";

// U+FFFD, in place of bytes that are no character.
constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Offset of the first byte that is not part of a whole valid character; npos for valid text.
size_t FirstInvalidUtf8(std::string_view text);

// What a text is whose end may be missing: whole characters, these and the beginning of one more,
// or nothing that any end could make valid.
enum class Utf8Prefix { kWhole, kUnfinished, kInvalid };
Utf8Prefix ReadUtf8Prefix(std::string_view text);

struct Utf8Char {
  char32_t code_point;
  uint32_t length;  // bytes, 1 to 4
};

// The character that begins at `at`. REQUIRES: `text` is valid, `at` is the start of a character.
Utf8Char ReadUtf8(std::string_view text, size_t at);

// The character that ends at `end`. REQUIRES: `text` is valid, end > 0 is the end of a character.
Utf8Char ReadUtf8Before(std::string_view text, size_t end);

// REQUIRES: a Unicode scalar value.
void AppendUtf8(char32_t code_point, std::string* out);

// Whether a byte continues a character rather than beginning one.
inline bool IsUtf8Continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

// Makes text of bytes that arrive in pieces: each maximal prefix of a character that is not
// completed becomes one U+FFFD, as does each byte that can begin none (Unicode 15, table 3-8; what
// Rust's String::from_utf8_lossy does). Bytes are kept back only while they may still become a
// character.
class LossyUtf8 {
 public:
  // Appends to `out` the characters that `bytes` makes certain.
  void Append(std::string_view bytes, std::string* out);

  // No more bytes follow: an unfinished character becomes U+FFFD. Ready for a new text afterwards.
  void Finish(std::string* out);

 private:
  void Begin(uint8_t lead, std::string* out);

  char pending_[4];
  uint32_t pending_size_ = 0;
  uint32_t pending_length_ = 0;  // of the whole character
  uint8_t next_min_ = 0;         // what the next byte must lie between
  uint8_t next_max_ = 0;
};

}  // namespace sluice
