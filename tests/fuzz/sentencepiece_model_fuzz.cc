// Fuzzes the reading of SentencePiece models: the answer is a status or a tokenizer that can be
// used.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/check.h"
#include "services/tokenizer/text/utf8.h"
#include "services/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = sluice::Tokenizer::FromSentencePiece(bytes, "fuzz.model");
  if (!tokenizer.ok()) {
    SLUICE_CHECK(!tokenizer.status().message().empty());
    return 0;
  }
  const auto encoding = (*tokenizer)->Encode(" Ab\u00e9 12\n<s>'s\u0301\u2581 ", {.offsets = true});
  SLUICE_CHECK(encoding.ok());
  SLUICE_CHECK(encoding->ids.size() == encoding->offsets.size());
  const auto text = (*tokenizer)->Decode(encoding->ids);
  SLUICE_CHECK(text.ok() && sluice::FirstInvalidUtf8(*text) == std::string_view::npos);
  return 0;
}
