// The base of stages that look at whole tokens: it gathers their fragments. Text is held back until
// the token it is part of has ended.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "services/tokenizer/decoders/decoder.h"

namespace sluice {

class WholeTokenStage : public DecodeStage {
 public:
  explicit WholeTokenStage(std::unique_ptr<DecodeStage> next) : next_(std::move(next)) {}

  void Append(std::string_view fragment) final { token_ += fragment; }
  void EndToken() final {
    TakeToken(&token_);
    token_.clear();
  }
  void Finish() final {
    TakeEnd();
    next_->Finish();
  }

 protected:
  // The next token is complete; its text may be changed in place.
  virtual void TakeToken(std::string* token) = 0;
  // No more tokens follow.
  virtual void TakeEnd() {}

  // Passes on a part of a token, or its end.
  void Emit(std::string_view text) {
    if (!text.empty()) next_->Append(text);
  }
  void EmitEnd() { next_->EndToken(); }

 private:
  std::unique_ptr<DecodeStage> next_;
  std::string token_;
};

}  // namespace sluice
