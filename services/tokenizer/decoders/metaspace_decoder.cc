#include "services/tokenizer/decoders/metaspace_decoder.h"

#include <string>
#include <utility>

#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/metaspace.h"

namespace sluice {
namespace {

void AppendReplaced(std::string_view text, std::string_view pattern, std::string_view content,
                    std::string* out) {
  size_t at = 0;
  for (size_t found; (found = text.find(pattern, at)) != text.npos;) {
    out->append(text, at, found - at).append(content);
    at = found + pattern.size();
  }
  out->append(text, at);
}

class MetaspaceStage : public DecodeStage {
 public:
  MetaspaceStage(const MetaspaceOptions& options, std::unique_ptr<DecodeStage> next)
      : replacement_(options.replacement),
        next_(std::move(next)),
        space_(options.prepend == MetaspaceOptions::Prepend::kNever ? " " : "") {}

  void Append(std::string_view fragment) override {
    text_.clear();
    AppendReplaced(fragment, replacement_, space_, &text_);
    if (!text_.empty()) next_->Append(text_);
  }

  void EndToken() override {
    space_ = " ";
    next_->EndToken();
  }

  void Finish() override { next_->Finish(); }

 private:
  const std::string& replacement_;
  std::unique_ptr<DecodeStage> next_;
  std::string_view space_;  // what a replacement becomes in the current token
  std::string text_;
};

class MetaspaceDecoder : public Decoder {
 public:
  explicit MetaspaceDecoder(MetaspaceOptions options) : options_(std::move(options)) {}

  std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const override {
    return std::make_unique<MetaspaceStage>(options_, std::move(next));
  }

  std::string TokenBytes(std::string_view token) const override {
    std::string bytes;
    AppendReplaced(token, options_.replacement, " ", &bytes);
    return bytes;
  }

 private:
  const MetaspaceOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> MetaspaceDecoderFromJson(const JsonPlace& place) {
  absl::StatusOr<MetaspaceOptions> options = MetaspaceFromJson(place);
  if (!options.ok()) return options.status();
  return std::make_unique<MetaspaceDecoder>(*std::move(options));
}

}  // namespace sluice
