#include "services/tokenizer/normalizers/normalizer.h"

#include <utility>
#include <vector>

#include "services/tokenizer/normalizers/char_normalizers.h"
#include "services/tokenizer/normalizers/precompiled_normalizer.h"
#include "services/tokenizer/normalizers/text_normalizers.h"
#include "services/tokenizer/normalizers/unicode_normalizer.h"
#include "services/tokenizer/text/json_place.h"

namespace sluice {
namespace {

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> steps)
      : steps_(std::move(steps)) {}

  void Normalize(MappedText* text) const override {
    for (const auto& step : steps_) {
      step->Normalize(text);
      if (!text->Pass(0)) return;  // the next must not see half a map
    }
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

absl::StatusOr<std::unique_ptr<Normalizer>> SequenceNormalizerFromJson(const JsonPlace& place) {
  absl::StatusOr<JsonPlace> list = place.Array("normalizers");
  if (!list.ok()) return list.status();
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (size_t i = 0; i < list->value->size(); ++i) {
    absl::StatusOr<std::unique_ptr<Normalizer>> step = NormalizerFromJson(list->Element(i));
    if (!step.ok()) return step.status();
    if (*step == nullptr) return list->Element(i).Reject("a normalizer");
    steps.push_back(*std::move(step));
  }
  return std::make_unique<SequenceNormalizer>(std::move(steps));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Normalizer>> NormalizerFromJson(const JsonPlace& place) {
  if (place.value->is_null()) return nullptr;
  const std::string type = place.Type();
  if (type == "Sequence") return SequenceNormalizerFromJson(place);
  if (type == "NFC") return MakeUnicodeNormalizer(NormalizationForm::kNfc);
  if (type == "NFD") return MakeUnicodeNormalizer(NormalizationForm::kNfd);
  if (type == "NFKC") return MakeUnicodeNormalizer(NormalizationForm::kNfkc);
  if (type == "NFKD") return MakeUnicodeNormalizer(NormalizationForm::kNfkd);
  if (type == "Append") return AppendNormalizerFromJson(place);
  if (type == "BertNormalizer") return BertNormalizerFromJson(place);
  if (type == "ByteLevel") return MakeByteLevelNormalizer();
  if (type == "Lowercase") return MakeLowercaseNormalizer();
  if (type == "Nmt") return MakeNmtNormalizer();
  if (type == "Precompiled") return PrecompiledNormalizerFromJson(place);
  if (type == "Prepend") return PrependNormalizerFromJson(place);
  if (type == "Replace") return ReplaceNormalizerFromJson(place);
  if (type == "Strip") return StripNormalizerFromJson(place);
  if (type == "StripAccents") return MakeStripAccentsNormalizer();
  return place.RejectType(
      "Append, BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, "
      "Prepend, Replace, Sequence, Strip, StripAccents");
}

}  // namespace sluice
