#include "services/tokenizer/incremental_decoder.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

// The end of every chain of stages.
class Collector : public DecodeStage {
 public:
  explicit Collector(std::string* out) : out_(*out) {}
  void Append(std::string_view fragment) override { out_ += fragment; }
  void EndToken() override {}
  void Finish() override {}

 private:
  std::string& out_;
};

}  // namespace

IncrementalDecoder::IncrementalDecoder(const Tokenizer& tokenizer, const DecodeOptions& options)
    : tokenizer_(&tokenizer),
      options_(options),
      out_(std::make_unique<std::string>()),
      stage_(tokenizer.decoder_->Start(std::make_unique<Collector>(out_.get()))) {}

bool IncrementalDecoder::IsKept(TokenId id) const {
  return std::binary_search(options_.kept_special.begin(), options_.kept_special.end(), id);
}

absl::Status IncrementalDecoder::Prime(absl::Span<const TokenId> ids) {
  return Append(ids).status();
}

absl::StatusOr<std::string> IncrementalDecoder::Append(absl::Span<const TokenId> ids) {
  if (!options_.skip_unknown) {
    if (absl::Status status = tokenizer_->CheckIds(ids); !status.ok()) return status;
  }
  for (const TokenId id : ids) {
    if (!tokenizer_->HasToken(id)) continue;
    const Tokenizer::Token& token = tokenizer_->tokens_[id];
    if (options_.skip_special && token.is_special && !IsKept(id)) continue;
    stage_->Append(token.decode_text);
    stage_->EndToken();
  }
  return std::exchange(*out_, {});
}

std::string IncrementalDecoder::Finish() {
  stage_->Finish();
  return std::exchange(*out_, {});
}

}  // namespace sluice
