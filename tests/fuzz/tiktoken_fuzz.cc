// Fuzzes the reading of tiktoken rank files: the answer is a status or a tokenizer that gives back
// the text it encoded. A file that lacks single bytes is refused, so they are put behind the input
// where its first byte is even.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "services/tokenizer/tokenizer.h"

namespace {

std::string SingleBytes() {
  std::string lines;
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    absl::StrAppend(&lines, "\n", absl::Base64Escape(absl::string_view(&text, 1)), " ",
                    1000 + byte);
  }
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const std::string& single_bytes = *new std::string(SingleBytes());
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0) bytes += single_bytes;
  const auto tokenizer =
      sluice::Tokenizer::FromTiktoken(bytes, "fuzz.tiktoken", *sluice::TiktokenPreset("cl100k"));
  if (!tokenizer.ok()) {
    SLUICE_CHECK(!tokenizer.status().message().empty());
    return 0;
  }
  constexpr std::string_view kText = " Ab\u00e9 12\n's\u0301 aaaa bbb";
  const auto encoding = (*tokenizer)->Encode(kText, {.offsets = true});
  SLUICE_CHECK(encoding.ok());
  SLUICE_CHECK(encoding->ids.size() == encoding->offsets.size());
  SLUICE_CHECK((*tokenizer)->Decode(encoding->ids).value() == kText);
  return 0;
}
