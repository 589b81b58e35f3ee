// Fuzzes encoding: any text ends in a status or in tokens that decode to the text, with offsets
// that cover it. The first byte chooses the options.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/check.h"
#include "services/tokenizer/utf8.h"
#include "tests/fuzz/fuzz_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const sluice::Tokenizer& tokenizer = *sluice::MakeFuzzTokenizer().release();
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  sluice::EncodeOptions options;
  options.add_special = false;
  options.parse_special = (data[0] & 1) != 0;
  options.offsets = (data[0] & 2) != 0;
  const auto encoding = tokenizer.Encode(text, options);
  const bool is_utf8 = sluice::FirstInvalidUtf8(text) == std::string_view::npos;
  SLUICE_CHECK(encoding.ok() == is_utf8);
  if (!is_utf8) return 0;
  SLUICE_CHECK(tokenizer.Decode(encoding->ids).value() == text);
  if (!options.parse_special) {
    for (const sluice::TokenId id : encoding->ids) SLUICE_CHECK(!tokenizer.IsSpecial(id));
  }
  uint32_t end = 0;
  for (const sluice::ByteRange& range : encoding->offsets) {
    SLUICE_CHECK(range.begin <= end && range.begin < range.end);
    end = std::max(end, range.end);
  }
  SLUICE_CHECK(!options.offsets || end == text.size());
  return 0;
}
