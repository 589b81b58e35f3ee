#include "services/tokenizer/sentencepiece/sentencepiece_decoder.h"

#include <string>
#include <string_view>
#include <utility>

#include "services/tokenizer/decoders/byte_fallback_decoder.h"
#include "services/tokenizer/decoders/whole_token_stage.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

void AppendWithSpaces(std::string_view text, std::string* out) {
  size_t at = 0;
  for (size_t found; (found = text.find(kVisibleSpace, at)) != text.npos;) {
    out->append(text, at, found - at).push_back(' ');
    at = found + kVisibleSpace.size();
  }
  out->append(text, at);
}

struct SpaceOptions {
  bool drop_first = false;         // the visible space that the text begins with
  bool drop_all_at_begin = false;  // and all others before anything else
};

class SpaceStage : public WholeTokenStage {
 public:
  SpaceStage(const SpaceOptions& options, std::unique_ptr<DecodeStage> next)
      : WholeTokenStage(std::move(next)), options_(options) {}

 private:
  void TakeToken(std::string* token) override {
    if (ByteOfToken(*token).has_value()) {
      at_begin_ = false;
      Emit(*token);
      return EmitEnd();
    }
    std::string_view text = *token;
    if (at_begin_ && options_.drop_first && text.starts_with(kVisibleSpace)) {
      text.remove_prefix(kVisibleSpace.size());
      at_begin_ = options_.drop_all_at_begin;
    }
    at_begin_ = at_begin_ && text.empty();
    text_.clear();
    AppendWithSpaces(text, &text_);
    Emit(text_);
    EmitEnd();
  }

  const SpaceOptions options_;
  bool at_begin_ = true;
  std::string text_;
};

class SentencePieceDecoder : public Decoder {
 public:
  explicit SentencePieceDecoder(const SpaceOptions& options)
      : options_(options), bytes_(MakeByteFallbackDecoder(BadBytes::kSpoilThemselves)) {}

  std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const override {
    return std::make_unique<SpaceStage>(options_, bytes_->Start(std::move(next)));
  }

  std::string TokenBytes(std::string_view token) const override {
    if (ByteOfToken(token).has_value()) return bytes_->TokenBytes(token);
    std::string bytes;
    AppendWithSpaces(token, &bytes);
    return bytes;
  }

 private:
  const SpaceOptions options_;
  const std::unique_ptr<Decoder> bytes_;
};

}  // namespace

std::unique_ptr<Decoder> MakeSentencePieceDecoder(const SentencePieceFile& file) {
  return std::make_unique<SentencePieceDecoder>(
      SpaceOptions{.drop_first = file.add_dummy_prefix || file.remove_extra_whitespaces,
                   .drop_all_at_begin = file.remove_extra_whitespaces});
}

}  // namespace sluice
