// Fuzzes encoding: any text ends in a status or in tokens that decode to the text, with offsets
// that cover it. The first byte chooses the options.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/check.h"
#include "services/tokenizer/text/utf8.h"
#include "tests/fuzz/fuzz_tokenizer.h"

namespace {

// Other kinds of tokenizers may change the text; what they make of it is sound all the same.
void EncodeWithAll(std::string_view text, const sluice::EncodeOptions& options) {
  static const auto& tokenizers = *new auto(sluice::MakeFuzzTokenizers());
  for (const auto& tokenizer : tokenizers) {
    const auto encoding = tokenizer->Encode(text, options);
    SLUICE_CHECK(encoding.ok());
    SLUICE_CHECK(!options.offsets || encoding->ids.size() == encoding->offsets.size());
    for (const sluice::ByteRange& range : encoding->offsets) {
      SLUICE_CHECK(range.begin <= range.end && range.end <= text.size());
    }
    const std::string decoded = tokenizer->Decode(encoding->ids).value();
    SLUICE_CHECK(sluice::FirstInvalidUtf8(decoded) == std::string::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const sluice::Tokenizer& tokenizer = *sluice::MakeFuzzTokenizer().release();
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  sluice::EncodeOptions options;
  options.add_special = false;
  options.parse_special = (data[0] & 1) != 0;
  options.offsets = (data[0] & 2) != 0;
  options.replace_invalid = (data[0] & 4) != 0;
  EncodeWithAll(text, {.offsets = options.offsets, .replace_invalid = true});
  const auto encoding = tokenizer.Encode(text, options);
  const bool is_utf8 = sluice::FirstInvalidUtf8(text) == std::string_view::npos;
  SLUICE_CHECK(encoding.ok() == (is_utf8 || options.replace_invalid));
  if (!encoding.ok()) return 0;
  SLUICE_CHECK(!is_utf8 || tokenizer.Decode(encoding->ids).value() == text);
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
