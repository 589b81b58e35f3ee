#include "services/tokenizer/decoders/byte_level_decoder.h"

#include <string>
#include <utility>

#include "services/tokenizer/text/byte_alphabet.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

class ByteLevelStage : public DecodeStage {
 public:
  explicit ByteLevelStage(std::unique_ptr<DecodeStage> next) : next_(std::move(next)) {}

  void Append(std::string_view fragment) override { token_ += fragment; }

  void EndToken() override {
    bytes_.clear();
    if (!AppendFromAlphabet(token_, &bytes_)) bytes_ = token_;
    token_.clear();
    text_.clear();
    utf8_.Append(bytes_, &text_);
    if (!text_.empty()) next_->Append(text_);
  }

  void Finish() override {
    text_.clear();
    utf8_.Finish(&text_);
    if (!text_.empty()) next_->Append(text_);
    next_->EndToken();
    next_->Finish();
  }

 private:
  std::unique_ptr<DecodeStage> next_;
  std::string token_;
  LossyUtf8 utf8_;
  std::string bytes_;  // these two only save allocations
  std::string text_;
};

class ByteLevelDecoder : public Decoder {
 public:
  std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const override {
    return std::make_unique<ByteLevelStage>(std::move(next));
  }

  std::string TokenBytes(std::string_view token) const override {
    std::string bytes;
    if (!AppendFromAlphabet(token, &bytes)) bytes = token;
    return bytes;
  }
};

}  // namespace

std::unique_ptr<Decoder> MakeByteLevelDecoder() { return std::make_unique<ByteLevelDecoder>(); }

}  // namespace sluice
