// Fuzzes the reading of tokenizer.json: the answer is a status or a tokenizer that can be used.
// What the regular expressions of a hostile file cost is bounded by the length of the text it is
// tried on.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/check.h"
#include "services/tokenizer/text/utf8.h"
#include "services/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = sluice::Tokenizer::FromJson(json, "fuzz.json");
  if (!tokenizer.ok()) {
    SLUICE_CHECK(!tokenizer.status().message().empty());
    return 0;
  }
  const auto encoding = (*tokenizer)->Encode(" Ab\u00e9 12\n<s>'s\u0301", {.offsets = true});
  if (!encoding.ok()) return 0;
  SLUICE_CHECK(encoding->ids.size() == encoding->offsets.size());
  // A template may name ids that no token has.
  const auto text = (*tokenizer)->Decode(encoding->ids, {.skip_unknown = true});
  SLUICE_CHECK(text.ok() && sluice::FirstInvalidUtf8(*text) == std::string_view::npos);
  return 0;
}
