#include "services/model/tensor_place.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/strings/substitute.h"
#include "kernels/check.h"
#include "services/model/tensor_layout.h"
#include "services/model/weight_rule.h"

namespace sluice {
namespace {

// How the files of this model, if `sluice quantize` wrote them, hold a tensor.
template <typename Tensor>
std::optional<WeightFormat> StoredQuantized(Tensor tensor, const ModelConfig& config) {
  if (!config.quantization.has_value() || config.quantization->published) return std::nullopt;
  const WeightFormat format = FormatOf(tensor, config, config.quantization->format);
  return IsQuantized(format) ? std::optional(format) : std::nullopt;
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
  const std::string final_norm = NameOf(ModelTensor::kFinalNorm);
  has_prefix_ = false;
  const std::string bare_final_norm = NameOf(ModelTensor::kFinalNorm);
  has_prefix_ = checkpoint.Has(final_norm) || !checkpoint.Has(bare_final_norm);
  tied_as_head_ = config.tied_embeddings && !checkpoint.Has(NameOf(ModelTensor::kEmbedding)) &&
                  checkpoint.Has(NameOf(ModelTensor::kHead));
}

TensorPlaces TensorPlaces::Quantized(const Quantization& quantization) const {
  TensorPlaces places = *this;
  places.config_.quantization = quantization;
  places.transposed_ = false;
  places.tied_as_head_ = false;
  return places;
}

std::string TensorPlaces::NameOf(const char* module, const char* suffix) const {
  SLUICE_CHECK(module != nullptr);  // the family's table lacks what its mapping switches on
  absl::string_view name = module;
  if (!has_prefix_) absl::ConsumePrefix(&name, names_->optional_prefix);
  return absl::StrCat(name, suffix);
}

std::string TensorPlaces::NameOf(ModelTensor tensor) const {
  switch (tensor) {
    case ModelTensor::kEmbedding:
      return NameOf(names_->embedding, kWeightSuffix);
    case ModelTensor::kHead:
      return NameOf(names_->head, kWeightSuffix);
    case ModelTensor::kPositions:
      return NameOf(names_->positions, kWeightSuffix);
    case ModelTensor::kFinalNorm:
      return NameOf(names_->final_norm, kWeightSuffix);
    case ModelTensor::kFinalNormBias:
      return NameOf(names_->final_norm, kBiasSuffix);
  }
  SLUICE_CHECK(false);
  return "";
}

TensorPlace TensorPlaces::Of(LayerTensor tensor, int layer) const {
  const auto [module, suffix] = NameIn(*names_, tensor);
  SLUICE_CHECK(module != nullptr);
  const MatrixShape shape = ShapeOf(tensor, config_);
  TensorPlace place{
      .name = absl::StrCat(absl::Substitute(NameOf(names_->layer, ""), layer), module, suffix),
      .stored = shape,
      .run = shape.rows,
      .stride = shape.rows};
  place.transposed = transposed_ && shape.columns > 1;
  place.is_norm_weight = tensor == LayerTensor::kInputNorm ||
                         tensor == LayerTensor::kPostAttentionNorm ||
                         tensor == LayerTensor::kQNorm || tensor == LayerTensor::kKNorm;
  place.quantized = StoredQuantized(tensor, config_);
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

TensorPlace TensorPlaces::Of(ModelTensor tensor) const {
  const MatrixShape shape = ShapeOf(tensor, config_);
  TensorPlace place{
      .name = NameOf(tensor), .stored = shape, .run = shape.rows, .stride = shape.rows};
  place.is_norm_weight = tensor == ModelTensor::kFinalNorm;
  place.quantized = StoredQuantized(tensor, config_);
  // A tied head is the embedding, unless it is stored once more for being quantised.
  if (config_.tied_embeddings && !place.quantized.has_value() &&
      (tensor == ModelTensor::kHead || tensor == ModelTensor::kEmbedding)) {
    place.name = NameOf(tied_as_head_ ? ModelTensor::kHead : ModelTensor::kEmbedding);
  }
  return place;
}

}  // namespace sluice
