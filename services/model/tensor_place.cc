#include "services/model/tensor_place.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/strings/substitute.h"
#include "kernels/check.h"
#include "services/model/tensor_layout.h"
#include "services/model/weight_rule.h"

namespace sluice {
namespace {

bool IsNormWeight(TensorRole role) {
  switch (role) {
    case TensorRole::kFinalNorm:
    case TensorRole::kAttentionNorm:
    case TensorRole::kMlpNorm:
    case TensorRole::kQNorm:
    case TensorRole::kKNorm:
    case TensorRole::kQANorm:
    case TensorRole::kKvANorm:
      return true;
    default:
      return false;
  }
}

}  // namespace

TensorPlace TensorPlace::Whole() const {
  TensorPlace whole = *this;
  whole.first_row = 0;
  whole.run = whole.stride = stored.rows;
  return whole;
}

TensorPlaces::TensorPlaces(const ModelConfig& config, const TensorNames& names,
                           const Checkpoint& checkpoint)
    : config_(config),
      names_(&names),
      // Files of `sluice quantize` have rows of outputs whatever the family.
      transposed_(names.transposed &&
                  (!config.quantization.has_value() || config.quantization->published)) {
  const std::string final_norm = NameOf({TensorRole::kFinalNorm});
  has_prefix_ = false;
  const std::string bare_final_norm = NameOf({TensorRole::kFinalNorm});
  has_prefix_ = checkpoint.Has(final_norm) || !checkpoint.Has(bare_final_norm);
  tied_as_head_ = config.tied_embeddings && !checkpoint.Has(NameOf({TensorRole::kEmbedding})) &&
                  checkpoint.Has(NameOf({TensorRole::kHead}));
}

TensorPlaces TensorPlaces::Quantized(const Quantization& quantization) const {
  TensorPlaces places = *this;
  places.config_.quantization = quantization;
  places.transposed_ = false;
  places.tied_as_head_ = false;
  return places;
}

std::optional<WeightFormat> TensorPlaces::StoredQuantized(TensorId tensor) const {
  if (!config_.quantization.has_value() || config_.quantization->published) return std::nullopt;
  const WeightFormat format = FormatOf(tensor, config_, config_.quantization->format);
  return IsQuantized(format) ? std::optional(format) : std::nullopt;
}

std::string TensorPlaces::NameOf(TensorId tensor) const {
  const auto [module, suffix] = NameIn(*names_, tensor.role);
  SLUICE_CHECK(module != nullptr);  // the family's table lacks what its mapping switches on
  const bool in_layer = tensor.role >= kFirstLayerRole;
  const std::string full = absl::StrCat(in_layer ? names_->layer : "", module, suffix);
  absl::string_view name = full;
  if (!has_prefix_) absl::ConsumePrefix(&name, names_->optional_prefix);
  return in_layer ? absl::Substitute(name, tensor.layer, tensor.expert) : std::string(name);
}

TensorPlace TensorPlaces::Of(TensorId tensor) const {
  const MatrixShape shape = ShapeOf(tensor, config_);
  TensorPlace place{
      .name = NameOf(tensor), .stored = shape, .run = shape.rows, .stride = shape.rows};
  place.transposed = transposed_ && tensor.role >= kFirstLayerRole && shape.columns > 1;
  place.is_norm_weight = IsNormWeight(tensor.role);
  place.quantized = StoredQuantized(tensor);
  // A tied head is the embedding, unless it is stored once more for being quantised.
  if (config_.tied_embeddings && !place.quantized.has_value() &&
      (tensor.role == TensorRole::kHead || tensor.role == TensorRole::kEmbedding)) {
    place.name = NameOf({tied_as_head_ ? TensorRole::kHead : TensorRole::kEmbedding});
  }
  const FusedRows fused = FusedRowsOf(tensor, config_, *names_);
  if (fused.fusion == Fusion::kNone) return place;
  place.stored.rows = fused.num_rows;
  place.first_row = fused.first_row;
  if (fused.fusion == Fusion::kByHead) {
    place.first_row = int64_t{fused.part} * config_.head_dim;
    place.run = config_.head_dim;
    place.stride = int64_t{fused.num_parts} * config_.head_dim;
  }
  return place;
}

}  // namespace sluice
