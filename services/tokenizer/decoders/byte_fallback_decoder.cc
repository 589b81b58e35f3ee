#include "services/tokenizer/decoders/byte_fallback_decoder.h"

#include <string>
#include <utility>

#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

constexpr size_t kTokenSize = 6;  // of "<0xE2>"

// A hexadecimal digit's value, or -1.
int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Whether a token that begins so may still turn out to be a byte's.
bool MayBeByte(std::string_view beginning) {
  return beginning.size() <= kTokenSize &&
         beginning.substr(0, 3) == std::string_view("<0x").substr(0, beginning.size());
}

class ByteFallbackStage : public DecodeStage {
 public:
  ByteFallbackStage(BadBytes bad_bytes, std::unique_ptr<DecodeStage> next)
      : bad_bytes_(bad_bytes), next_(std::move(next)) {}

  void Append(std::string_view fragment) override {
    if (!is_text_) {
      token_ += fragment;
      if (MayBeByte(token_)) return;
      BeginText();
      fragment = token_;
    }
    if (!fragment.empty()) next_->Append(fragment);
  }

  void EndToken() override {
    if (!is_text_) {
      if (const std::optional<uint8_t> byte = ByteOfToken(token_)) {
        token_.clear();
        return TakeByte(*byte);
      }
      BeginText();
      if (!token_.empty()) next_->Append(token_);
    }
    next_->EndToken();
    token_.clear();
    is_text_ = false;
  }

  void Finish() override {
    EndRun();
    next_->Finish();
  }

 private:
  // The current token is no byte's.
  void BeginText() {
    EndRun();
    is_text_ = true;
  }

  void TakeByte(uint8_t byte) {
    if (bad_bytes_ == BadBytes::kSpoilThemselves) return TakeIndependently(byte);
    if (is_spoilt_) return EmitToken(kReplacementCharacter);
    run_.push_back(static_cast<char>(byte));
    if (!CanBecomeUtf8()) SpoilRun();
  }

  // Whether the run, whose bytes but the last were looked at before, is UTF-8 but for a character
  // under way.
  bool CanBecomeUtf8() {
    const std::string_view rest = std::string_view(run_).substr(checked_);
    const Utf8Prefix prefix = ReadUtf8Prefix(rest);
    if (prefix == Utf8Prefix::kWhole) checked_ = run_.size();
    return prefix != Utf8Prefix::kInvalid;
  }

  void SpoilRun() {
    for (size_t i = 0; i < run_.size(); ++i) EmitToken(kReplacementCharacter);
    run_.clear();
    checked_ = 0;
    is_spoilt_ = true;
  }

  void EndRun() {
    if (checked_ < run_.size()) SpoilRun();
    if (!run_.empty()) EmitToken(run_);
    run_.clear();
    checked_ = 0;
    is_spoilt_ = false;
  }

  // Keeps one unfinished character at most; what spoils it is looked at again by itself.
  void TakeIndependently(uint8_t byte) {
    run_.push_back(static_cast<char>(byte));
    while (!run_.empty()) {
      switch (ReadUtf8Prefix(run_)) {
        case Utf8Prefix::kWhole:
          EmitToken(run_);
          run_.clear();
          return;
        case Utf8Prefix::kUnfinished:
          return;
        case Utf8Prefix::kInvalid:
          EmitToken(kReplacementCharacter);
          run_.erase(0, 1);
          break;
      }
    }
  }

  void EmitToken(std::string_view text) {
    next_->Append(text);
    next_->EndToken();
  }

  const BadBytes bad_bytes_;
  std::unique_ptr<DecodeStage> next_;
  std::string token_;       // while it may be a byte's
  bool is_text_ = false;    // the current token is no byte's and was passed on so far
  std::string run_;         // bytes not passed on yet
  size_t checked_ = 0;      // of these, how many are whole characters
  bool is_spoilt_ = false;  // the current run has become U+FFFD
};

class ByteFallbackDecoder : public Decoder {
 public:
  explicit ByteFallbackDecoder(BadBytes bad_bytes) : bad_bytes_(bad_bytes) {}

  std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const override {
    return std::make_unique<ByteFallbackStage>(bad_bytes_, std::move(next));
  }

  std::string TokenBytes(std::string_view token) const override {
    const std::optional<uint8_t> byte = ByteOfToken(token);
    return byte.has_value() ? std::string(1, static_cast<char>(*byte)) : std::string(token);
  }

 private:
  const BadBytes bad_bytes_;
};

}  // namespace

std::optional<uint8_t> ByteOfToken(std::string_view token) {
  if (token.size() != kTokenSize || token.substr(0, 3) != "<0x" || token.back() != '>') {
    return std::nullopt;
  }
  // Rust, whose parsing of numbers defines this, takes "+A" for a number.
  const int high = token[3] == '+' ? 0 : HexDigit(token[3]);
  const int low = HexDigit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high << 4 | low);
}

std::unique_ptr<Decoder> MakeByteFallbackDecoder(BadBytes bad_bytes) {
  return std::make_unique<ByteFallbackDecoder>(bad_bytes);
}

}  // namespace sluice
