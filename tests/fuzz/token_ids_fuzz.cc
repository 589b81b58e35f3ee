// Fuzzes decoding: ids in any order and in any pieces give the text of decoding them at once,
// always UTF-8, up to the stop strings. Every two bytes are an id; ids that no token has are
// refused.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "services/tokenizer/text/utf8.h"
#include "services/tokenizer/text_stream.h"
#include "tests/fuzz/fuzz_tokenizer.h"

namespace {

// All ids at once without stop strings, or nothing where one is refused.
std::string WholeText(const sluice::Tokenizer& tokenizer, const std::vector<sluice::TokenId>& ids) {
  const auto text = tokenizer.Decode(ids);
  return text.ok() ? *text : std::string();
}

// The same for every kind of decoder, token by token.
void StreamWithAll(const uint8_t* data, size_t size) {
  static const auto& tokenizers = *new auto(sluice::MakeFuzzTokenizers());
  for (const auto& tokenizer : tokenizers) {
    std::vector<sluice::TokenId> ids;
    sluice::IncrementalDecoder decoder(*tokenizer);
    std::string streamed;
    for (size_t i = 0; i + 1 < size; i += 2) {
      ids.push_back((data[i] | data[i + 1] << 8) % tokenizer->id_limit());
      const std::string piece = decoder.Append({ids.back()}).value();
      SLUICE_CHECK(sluice::FirstInvalidUtf8(piece) == std::string::npos);
      streamed += piece;
    }
    SLUICE_CHECK(streamed + decoder.Finish() == tokenizer->Decode(ids).value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const sluice::Tokenizer& tokenizer = *sluice::MakeFuzzTokenizer().release();
  static const auto& strings =
      *new sluice::StopStrings(sluice::StopStrings::Create({"aab", "\u00e9a", "b\u20ac"}).value());
  StreamWithAll(data, size);
  std::vector<sluice::TokenId> taken;
  sluice::TextStream stream(tokenizer, strings, {.stop = {.include_stop_string = true}});
  std::string shown;
  bool stopped = false;
  for (size_t i = 0; i + 1 < size && !stopped; i += 2) {
    // Mostly ids that exist.
    const sluice::TokenId id = (data[i] | data[i + 1] << 8) % (tokenizer.id_limit() + 4);
    const auto result = stream.Append({id});
    SLUICE_CHECK(result.ok() == tokenizer.HasToken(id));
    if (!result.ok()) return 0;
    taken.push_back(id);
    shown += result->text;
    SLUICE_CHECK(sluice::FirstInvalidUtf8(result->text) == std::string::npos);
    stopped = result->stopped();
  }
  const std::string whole = WholeText(tokenizer, taken);
  if (stopped) {
    SLUICE_CHECK(whole.compare(0, shown.size(), shown) == 0);
  } else {
    SLUICE_CHECK(shown + stream.Finish()->text == whole);
  }
  return 0;
}
