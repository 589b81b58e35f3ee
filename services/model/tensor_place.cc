#include "services/model/tensor_place.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/strings/substitute.h"
#include "kernels/check.h"
#include "services/model/published/fp4.h"
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
    case TensorRole::kAttentionPostNorm:
    case TensorRole::kMlpPostNorm:
    case TensorRole::kQANorm:
    case TensorRole::kKvANorm:
    case TensorRole::kSideProjectionNorm:
    case TensorRole::kSideNorm:
    case TensorRole::kMixtureNorm:
    case TensorRole::kBesidePostNorm:
    case TensorRole::kMixturePostNorm:
    case TensorRole::kEmbeddingNorm:
    case TensorRole::kSourceEmbeddingNorm:
    case TensorRole::kLeavingNorm:
    case TensorRole::kCrossNorm:
    case TensorRole::kCrossPostNorm:
      return true;
    default:
      return false;
  }
}

bool IsConvolution(TensorRole role) {
  return role == TensorRole::kConvQ || role == TensorRole::kConvK || role == TensorRole::kConvV;
}

// Whether layers share it, so that its name is no layer's.
bool IsOfSide(TensorRole role) {
  return role == TensorRole::kRelativeBias || role == TensorRole::kLeavingNorm ||
         role == TensorRole::kLeavingNormBias;
}

// How a tensor has an order of heads that is not ours, by what a head is in it. Of rows 0 where it has
// none.
int64_t HeadRowsOf(TensorRole role, const RecurrentSpec& recurrent) {
  switch (role) {
    case TensorRole::kRecurrentV:
    case TensorRole::kRecurrentGate:
    case TensorRole::kConvV:
    case TensorRole::kConvVBias:
      return recurrent.value_dim;
    case TensorRole::kBeta:
    case TensorRole::kDecay:
    case TensorRole::kDecayBias:
    case TensorRole::kLogRate:
      return 1;
    default:
      return 0;
  }
}

bool IsRotated(TensorRole role) {
  return role == TensorRole::kQ || role == TensorRole::kK || role == TensorRole::kQBias ||
         role == TensorRole::kKBias;
}

}  // namespace

TensorPlace TensorPlace::Whole() const {
  TensorPlace whole = *this;
  if (stacked) return whole;
  whole.first_row = 0;
  whole.run = whole.stride = stored.rows;
  return whole;
}

IndexRange TensorPlace::StoredRows(int64_t row, int64_t most) const {
  if (!row_tiles.empty()) {
    const int64_t in_tile = row % row_tiles.size;
    const int64_t tiled =
        first_row + row_tiles.StoredRun(row / row_tiles.size) * row_tiles.size + in_tile;
    return {tiled, tiled + std::min(row_tiles.size - in_tile, most)};
  }
  const int64_t in_run = row % run;
  const int64_t first = first_row + row / run * stride + in_run;
  if (paired == 0) return {first, first + std::min(run - in_run, most)};
  const int64_t in_head = first % paired;
  const int64_t pair = in_head % (paired / 2);
  const int64_t neighbour = first - in_head + 2 * pair + (in_head >= paired / 2 ? 1 : 0);
  return {neighbour, neighbour + 1};
}

TensorPlace TensorPlace::Row(int64_t row) const {
  TensorPlace vector = *this;
  vector.name = absl::StrReplaceAll(name, {{"*", absl::StrCat(row)}});
  vector.stored = {stored.columns, 1};
  vector.first_row = 0;
  vector.run = vector.stride = stored.columns;
  vector.rows_apart = false;
  return vector;
}

TensorPlaces::TensorPlaces(const ModelConfig& config, const TensorNames& names,
                           const Checkpoint& checkpoint)
    : config_(config), names_(names), transposed_(names.transposed && !AreOwn()) {
  // Every model has it under its own name; an embedding may be stored under the head's.
  const TensorId probe{config.final_norm ? TensorRole::kFinalNorm : TensorRole::kEmbedding};
  const auto has_probe = [&] { return checkpoint.Has(NameOf(probe)); };
  for (const Nesting nesting : {Nesting::kNone, Nesting::kOuter, Nesting::kInner}) {
    nesting_ = nesting;
    if (has_probe()) break;
  }
  if (!has_probe()) nesting_ = Nesting::kNone;
  const bool is_prefixed = has_probe();
  has_prefix_ = false;
  has_prefix_ = is_prefixed || !has_probe();
  tied_as_head_ = config.tied_embeddings && !checkpoint.Has(NameOf({TensorRole::kEmbedding})) &&
                  checkpoint.Has(NameOf({TensorRole::kHead}));
  has_mxfp4_stacks_ = HasMxFp4Stacks(checkpoint);
}

// As the first mixture has it.
bool TensorPlaces::HasMxFp4Stacks(const Checkpoint& checkpoint) const {
  if (!config_.quantization.has_value() || names_.stacked_down == nullptr) return false;
  if (config_.quantization->scheme.layout != PublishedLayout::kMxFp4) return false;
  for (int layer = 0; layer < config_.num_layers(); ++layer) {
    if (MixtureOf(config_.layers[layer]) == nullptr) continue;
    const TensorPlace place = OfStack({TensorRole::kDown, layer, /*expert=*/0});
    return checkpoint.Has(place.name + kFp4BlocksSuffix);
  }
  return false;
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
  const bool of_source = tensor.layer >= 0 && config_.reads_source(tensor.layer);
  const TensorNames& names = of_source ? *names_.source_layers : names_;
  auto [module, suffix] = NameIn(names, tensor);
  if ((tensor.role == TensorRole::kUp || tensor.role == TensorRole::kUpBias) &&
      names.up_alone != nullptr && !DenseMlpOf(config_.layers[tensor.layer]).gated) {
    module = names.up_alone;
  }
  SLUICE_CHECK(module != nullptr);  // the family's table lacks what its mapping switches on
  const bool in_layer = tensor.role >= kFirstLayerRole && !IsOfSide(tensor.role);
  // Files count the layers of each side from 0.
  const int first_layer = config_.source.has_value() && !of_source ? config_.source->num_layers : 0;
  const std::string full = absl::StrCat(in_layer ? names.layer : "", module, suffix);
  absl::string_view name = full;
  if (!has_prefix_) absl::ConsumePrefix(&name, names_.optional_prefix);
  if (!in_layer) return Nested(name);
  const bool is_norm = tensor.role == TensorRole::kQNorm || tensor.role == TensorRole::kKNorm;
  const std::string index = is_norm ? "*" : absl::StrCat(tensor.expert);
  return Nested(absl::Substitute(name, tensor.layer - first_layer, index));
}

std::string TensorPlaces::Nested(absl::string_view name) const {
  if (nesting_ == Nesting::kOuter) return absl::StrCat("language_model.", name);
  const bool inside = nesting_ == Nesting::kInner && absl::ConsumePrefix(&name, "model.");
  return absl::StrCat(inside ? "model.language_model." : "", name);
}

bool TensorPlaces::IsOfLayer(const std::string& stored_name) const {
  absl::string_view layers = names_.layer;
  layers = layers.substr(0, layers.find('$'));
  if (!has_prefix_) absl::ConsumePrefix(&layers, names_.optional_prefix);
  if (absl::StartsWith(stored_name, Nested(layers))) return true;
  if (names_.source_layers == nullptr) return false;
  const absl::string_view of_source = names_.source_layers->layer;
  return absl::StartsWith(stored_name, of_source.substr(0, of_source.find('$')));
}

bool TensorPlaces::AreOwn() const {
  return config_.quantization.has_value() && !config_.quantization->published;
}

bool TensorPlaces::IsStacked(TensorId tensor) const {
  return tensor.expert >= 0 && names_.experts != ExpertStack::kNone && !AreOwn();
}

// Where matrices are [E, inputs, outputs], biases [E, outputs], both are read as one matrix with an
// expert's inputs, or its bias, as rows, that is transposed.
TensorPlace TensorPlaces::OfStack(TensorId tensor) const {
  if (names_.experts == ExpertStack::kModules) return OfModules(tensor);
  const MatrixShape shape = ShapeOf(tensor, config_);
  const int64_t num_experts = MixtureOf(config_.layers[tensor.layer])->router.num_experts;
  const bool is_down = tensor.role == TensorRole::kDown || tensor.role == TensorRole::kDownBias;
  const bool is_up = tensor.role == TensorRole::kUp || tensor.role == TensorRole::kUpBias;
  const bool is_bias = shape.columns == 1;
  const std::string name = absl::StrCat(
      names_.layer, is_down ? names_.stacked_down : names_.stacked_gate_up, is_bias ? "_bias" : "");
  TensorPlace place{.name = Nested(absl::Substitute(name, tensor.layer)),
                    .stored = {shape.rows, shape.columns * num_experts},
                    .matrices = is_bias ? 0 : num_experts,
                    .first_column = shape.columns * tensor.expert,
                    .run = shape.rows,
                    .stride = shape.rows,
                    .transposed = true,
                    .stacked = true};
  const int64_t of_expert = is_down ? shape.rows : 2 * shape.rows;
  const bool by_rows = names_.experts == ExpertStack::kRows || (has_mxfp4_stacks_ && !is_bias);
  if (by_rows) {
    place.stored = {of_expert * num_experts, shape.columns};
    place.first_column = 0;
    place.first_row = of_expert * tensor.expert;
    place.transposed = false;
  } else {
    place.stored.rows = of_expert;
  }
  if (is_down) return place;
  if (names_.experts == ExpertStack::kAlternating) {
    place.first_row += is_up ? 1 : 0;
    place.run = 1;
    place.stride = 2;
  } else {
    place.first_row += is_up ? shape.rows : 0;
  }
  return place;
}

// A bias [E, outputs] is read as a matrix with a column for each expert, that is transposed.
TensorPlace TensorPlaces::OfModules(TensorId tensor) const {
  const MatrixShape shape = ShapeOf(tensor, config_);
  const int64_t num_experts = MixtureOf(config_.layers[tensor.layer])->router.num_experts;
  TensorPlace place{.name = NameOf(tensor), .run = shape.rows, .stride = shape.rows};
  place.stacked = true;
  if (shape.columns == 1) {
    place.stored = {shape.rows, num_experts};
    place.first_column = tensor.expert;
    place.transposed = true;
    return place;
  }
  place.stored = {shape.rows * num_experts, shape.columns};
  place.matrices = num_experts;
  place.first_row = shape.rows * tensor.expert;
  return place;
}

TensorPlace TensorPlaces::OfHeads(TensorId tensor) const {
  const LatentSpec& latent = *config_.latent();
  const int64_t heads = config_.num_heads, rank = latent.rank;
  const auto name = [&](const char* module) {
    return Nested(
        absl::Substitute(absl::StrCat(names_.layer, module, kWeightSuffix), tensor.layer));
  };
  TensorPlace place{.name = name(names_.k_b), .stored = ShapeOf(tensor, config_)};
  for (int64_t head = 0; head < heads; ++head) {
    place.pieces.push_back({.name = name(names_.k_b),
                            .stored = {latent.nope_dim, rank * heads},
                            .matrices = heads,
                            .first_column = rank * head,
                            .run = latent.nope_dim,
                            .stride = latent.nope_dim,
                            .transposed = true,
                            .stacked = true});
    place.pieces.push_back({.name = name(names_.v_b),
                            .stored = {latent.value_dim * heads, rank},
                            .matrices = heads,
                            .first_row = latent.value_dim * head,
                            .run = latent.value_dim,
                            .stride = latent.value_dim,
                            .stacked = true});
  }
  return place;
}

void TensorPlaces::SetTiles(TensorRole role, TensorPlace& place) const {
  const RecurrentSpec& recurrent = *config_.recurrent();
  const Tiles tiles{.groups = recurrent.num_key_heads,
                    .each = recurrent.num_heads / recurrent.num_key_heads};
  if (const int64_t rows = HeadRowsOf(role, recurrent); rows > 0) {
    place.row_tiles = tiles;
    place.row_tiles.size = rows;
  }
  if (role != TensorRole::kRecurrentOut) return;
  place.column_tiles = tiles;
  place.column_tiles.size = recurrent.value_dim;
}

TensorPlace TensorPlaces::Of(TensorId tensor) const {
  if (tensor.role == TensorRole::kV && config_.layers[tensor.layer].attention.keys_as_values &&
      !AreOwn()) {
    tensor.role = TensorRole::kK;
  }
  if (IsStacked(tensor)) return OfStack(tensor);
  if (tensor.role == TensorRole::kKvB && names_.k_b != nullptr) return OfHeads(tensor);
  const MatrixShape shape = ShapeOf(tensor, config_);
  TensorPlace place{
      .name = NameOf(tensor), .stored = shape, .run = shape.rows, .stride = shape.rows};
  place.transposed = transposed_ && tensor.role >= kFirstLayerRole && shape.columns > 1;
  if (tensor.role == TensorRole::kChoiceBias && !AreOwn()) {
    place.transposed = names_.choice_bias_is_row;
  }
  if (tensor.role == TensorRole::kHeadBias && !AreOwn()) {
    place.transposed = names_.head_bias != nullptr;
  }
  if (tensor.role == TensorRole::kSharedScore && names_.shared_score_is_vector) {
    place.transposed = true;
  }
  place.is_norm_weight = IsNormWeight(tensor.role);
  place.quantized = StoredQuantized(tensor);
  if (names_.paired_rows && IsRotated(tensor.role)) {
    place.paired = config_.head_dim_of(tensor.layer);
  }
  // Files of `sluice quantize` have them in one.
  place.rows_apart = shape.columns > 1 && absl::StrContains(place.name, '*') && !AreOwn();
  // A tied head is the embedding, unless it is stored once more for being quantised.
  if (config_.tied_embeddings && !place.quantized.has_value() &&
      (tensor.role == TensorRole::kHead || tensor.role == TensorRole::kEmbedding)) {
    place.name = NameOf({tied_as_head_ ? TensorRole::kHead : TensorRole::kEmbedding});
  }
  if (names_.recurrent == RecurrentFusion::kQkvTiled && config_.recurrent() != nullptr &&
      !AreOwn()) {
    SetTiles(tensor.role, place);
  }
  place.is_negative_rate =
      tensor.role == TensorRole::kLogRate && names_.rates_are_negative && !AreOwn();
  const FusedRows fused = FusedRowsOf(tensor, config_, names_);
  if (fused.fusion == Fusion::kNone) return place;
  place.stored.rows = fused.num_rows;
  place.first_row = fused.first_row;
  place.run = fused.run;
  place.stride = fused.stride;
  // Files have a convolution of one input a channel.
  if (IsConvolution(tensor.role) && !names_.conv_is_matrix && !AreOwn()) {
    place.matrices = place.stored.rows;
  }
  return place;
}

}  // namespace sluice
