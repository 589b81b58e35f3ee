#include "services/tokenizer/decoders/decoder.h"

#include <utility>
#include <vector>

#include "services/tokenizer/decoders/byte_fallback_decoder.h"
#include "services/tokenizer/decoders/byte_level_decoder.h"
#include "services/tokenizer/decoders/metaspace_decoder.h"
#include "services/tokenizer/decoders/replace_decoder.h"
#include "services/tokenizer/decoders/strip_decoder.h"
#include "services/tokenizer/decoders/word_decoders.h"
#include "services/tokenizer/text/json_place.h"

namespace sluice {
namespace {

// All tokens become one.
class FuseDecoder : public Decoder {
 public:
  std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const override {
    return std::make_unique<Stage>(std::move(next));
  }

 private:
  class Stage : public DecodeStage {
   public:
    explicit Stage(std::unique_ptr<DecodeStage> next) : next_(std::move(next)) {}
    void Append(std::string_view fragment) override { next_->Append(fragment); }
    void EndToken() override {}
    void Finish() override {
      next_->EndToken();
      next_->Finish();
    }

   private:
    std::unique_ptr<DecodeStage> next_;
  };
};

// What a tokenizer without a decoder does.
class SpaceJoiningDecoder : public Decoder {
 public:
  std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const override {
    return std::make_unique<Stage>(std::move(next));
  }

 private:
  class Stage : public DecodeStage {
   public:
    explicit Stage(std::unique_ptr<DecodeStage> next) : next_(std::move(next)) {}
    void Append(std::string_view fragment) override {
      BeginToken();
      next_->Append(fragment);
    }
    void EndToken() override {
      BeginToken();
      in_token_ = false;
    }
    void Finish() override {
      next_->EndToken();
      next_->Finish();
    }

   private:
    void BeginToken() {
      if (!in_token_ && !is_first_) next_->Append(" ");
      in_token_ = true;
      is_first_ = false;
    }

    std::unique_ptr<DecodeStage> next_;
    bool in_token_ = false;
    bool is_first_ = true;
  };
};

class SequenceDecoder : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<Decoder>> steps)
      : steps_(std::move(steps)) {}

  std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const override {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      next = (*step)->Start(std::move(next));
    }
    return next;
  }

  std::string TokenBytes(std::string_view token) const override {
    std::string bytes(token);
    for (const auto& step : steps_) bytes = step->TokenBytes(bytes);
    return bytes;
  }

 private:
  std::vector<std::unique_ptr<Decoder>> steps_;
};

absl::StatusOr<std::unique_ptr<Decoder>> SequenceDecoderFromJson(const JsonPlace& place) {
  absl::StatusOr<JsonPlace> list = place.Array("decoders");
  if (!list.ok()) return list.status();
  constexpr size_t kMaxSteps = 64;  // each is a stack frame
  if (list->value->size() > kMaxSteps) return list->Reject("at most 64 decoders");
  std::vector<std::unique_ptr<Decoder>> steps;
  for (size_t i = 0; i < list->value->size(); ++i) {
    const JsonPlace element = list->Element(i);
    if (element.value->is_null()) return element.Reject("a decoder");
    absl::StatusOr<std::unique_ptr<Decoder>> step = DecoderFromJson(element);
    if (!step.ok()) return step.status();
    steps.push_back(*std::move(step));
  }
  return std::make_unique<SequenceDecoder>(std::move(steps));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> DecoderFromJson(const JsonPlace& place) {
  if (place.value->is_null()) return std::make_unique<SpaceJoiningDecoder>();
  const std::string type = place.Type();
  if (type == "Sequence") return SequenceDecoderFromJson(place);
  if (type == "BPEDecoder") return BpeDecoderFromJson(place);
  if (type == "ByteFallback") return MakeByteFallbackDecoder(BadBytes::kSpoilTheRun);
  if (type == "ByteLevel") return MakeByteLevelDecoder();
  if (type == "CTC") return CtcDecoderFromJson(place);
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Metaspace") return MetaspaceDecoderFromJson(place);
  if (type == "Replace") return ReplaceDecoderFromJson(place);
  if (type == "Strip") return StripDecoderFromJson(place);
  if (type == "WordPiece") return WordPieceDecoderFromJson(place);
  return place.RejectType(
      "BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, Metaspace, Replace, Sequence, Strip, "
      "WordPiece");
}

}  // namespace sluice
