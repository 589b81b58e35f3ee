#include "services/tokenizer/text/byte_alphabet.h"

#include <array>

#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

constexpr int kNotInAlphabet = -1;
constexpr char32_t kEndOfAlphabet = 0x100 + 68;  // 68 bytes are not printable in Latin-1

bool IsPrintableLatin1(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

struct Alphabet {
  std::array<std::string, 256> of_byte;
  std::array<int16_t, kEndOfAlphabet> byte_of;

  Alphabet() {
    byte_of.fill(kNotInAlphabet);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const char32_t c = IsPrintableLatin1(byte) ? static_cast<char32_t>(byte) : next++;
      AppendUtf8(c, &of_byte[byte]);
      byte_of[c] = static_cast<int16_t>(byte);
    }
  }
};

const Alphabet& GetAlphabet() {
  static const Alphabet& alphabet = *new Alphabet;
  return alphabet;
}

}  // namespace

std::string_view ByteToAlphabet(uint8_t byte) { return GetAlphabet().of_byte[byte]; }

void AppendInAlphabet(std::string_view bytes, std::string* out) {
  for (const char byte : bytes) out->append(ByteToAlphabet(static_cast<uint8_t>(byte)));
}

bool AppendFromAlphabet(std::string_view text, std::string* out) {
  const Alphabet& alphabet = GetAlphabet();
  const size_t size_before = out->size();
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = ReadUtf8(text, at);
    const int byte =
        c.code_point < kEndOfAlphabet ? alphabet.byte_of[c.code_point] : kNotInAlphabet;
    if (byte == kNotInAlphabet) {
      out->resize(size_before);
      return false;
    }
    out->push_back(static_cast<char>(byte));
    at += c.length;
  }
  return true;
}

}  // namespace sluice
