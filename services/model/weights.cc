#include "services/model/weights.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/strings/substitute.h"
#include "kernels/check.h"
#include "services/model/model_families.h"
#include "services/model/tensor_layout.h"

namespace sluice {
namespace {

bool HasTensor(LayerTensor tensor, const ModelConfig& config) {
  switch (tensor) {
    case LayerTensor::kGate:
      return config.gated_mlp;
    case LayerTensor::kQBias:
    case LayerTensor::kKBias:
    case LayerTensor::kVBias:
      return config.qkv_bias;
    case LayerTensor::kOBias:
      return config.o_bias;
    case LayerTensor::kGateBias:
      return config.mlp_bias && config.gated_mlp;
    case LayerTensor::kUpBias:
    case LayerTensor::kDownBias:
      return config.mlp_bias;
    case LayerTensor::kInputNormBias:
    case LayerTensor::kPostAttentionNormBias:
      return config.norm_bias;
    case LayerTensor::kQNorm:
    case LayerTensor::kKNorm:
      return config.qk_norm;
    default:
      return true;
  }
}

bool HasTensor(ModelTensor tensor, const ModelConfig& config) {
  switch (tensor) {
    case ModelTensor::kPositions:
      return config.position == PositionKind::kLearned;
    case ModelTensor::kFinalNormBias:
      return config.norm_bias;
    default:
      return true;
  }
}

template <typename Tensor, int kCount>
std::vector<Tensor> TensorsOf(const ModelConfig& config) {
  std::vector<Tensor> tensors;
  for (int index = 0; index < kCount; ++index) {
    const auto tensor = static_cast<Tensor>(index);
    if (HasTensor(tensor, config)) tensors.push_back(tensor);
  }
  return tensors;
}

IndexRange Scaled(IndexRange range, int64_t factor) {
  return {range.begin * factor, range.end * factor};
}

}  // namespace

std::vector<LayerTensor> LayerTensors(const ModelConfig& config) {
  return TensorsOf<LayerTensor, kNumLayerTensors>(config);
}

std::vector<ModelTensor> ModelTensors(const ModelConfig& config) {
  return TensorsOf<ModelTensor, kNumModelTensors>(config);
}

MatrixShape ShapeOf(LayerTensor tensor, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  const int64_t mlp = config.intermediate_size;
  switch (tensor) {
    case LayerTensor::kInputNorm:
    case LayerTensor::kPostAttentionNorm:
    case LayerTensor::kInputNormBias:
    case LayerTensor::kPostAttentionNormBias:
    case LayerTensor::kOBias:
    case LayerTensor::kDownBias:
      return {hidden, 1};
    case LayerTensor::kQNorm:
    case LayerTensor::kKNorm:
      return {config.head_dim, 1};
    case LayerTensor::kQ:
      return {config.query_width(), hidden};
    case LayerTensor::kK:
    case LayerTensor::kV:
      return {config.kv_width(), hidden};
    case LayerTensor::kO:
      return {hidden, config.query_width()};
    case LayerTensor::kGate:
    case LayerTensor::kUp:
      return {mlp, hidden};
    case LayerTensor::kDown:
      return {hidden, mlp};
    case LayerTensor::kQBias:
      return {config.query_width(), 1};
    case LayerTensor::kKBias:
    case LayerTensor::kVBias:
      return {config.kv_width(), 1};
    case LayerTensor::kGateBias:
    case LayerTensor::kUpBias:
      return {mlp, 1};
  }
  SLUICE_CHECK(false);
  return {};
}

MatrixShape ShapeOf(ModelTensor tensor, const ModelConfig& config) {
  switch (tensor) {
    case ModelTensor::kFinalNorm:
    case ModelTensor::kFinalNormBias:
      return {config.hidden_size, 1};
    case ModelTensor::kPositions:
      return {config.max_positions, config.hidden_size};
    case ModelTensor::kEmbedding:
    case ModelTensor::kHead:
      return {config.vocab_size, config.hidden_size};
  }
  SLUICE_CHECK(false);
  return {};
}

TensorSlice SliceOf(LayerTensor tensor, const ModelConfig& config, const ShardPlan& plan) {
  TensorSlice slice = WholeOf(ShapeOf(tensor, config));
  switch (tensor) {
    case LayerTensor::kQ:
    case LayerTensor::kQBias:
      slice.rows = Scaled(plan.heads, config.head_dim);
      break;
    case LayerTensor::kK:
    case LayerTensor::kV:
    case LayerTensor::kKBias:
    case LayerTensor::kVBias:
      slice.rows = Scaled(plan.kv_heads, config.head_dim);
      break;
    case LayerTensor::kO:
      slice.columns = Scaled(plan.heads, config.head_dim);
      break;
    case LayerTensor::kGate:
    case LayerTensor::kUp:
    case LayerTensor::kGateBias:
    case LayerTensor::kUpBias:
      slice.rows = plan.mlp_columns;
      break;
    case LayerTensor::kDown:
      slice.columns = plan.mlp_columns;
      break;
    case LayerTensor::kInputNorm:
    case LayerTensor::kPostAttentionNorm:
    case LayerTensor::kInputNormBias:
    case LayerTensor::kPostAttentionNormBias:
    case LayerTensor::kQNorm:
    case LayerTensor::kKNorm:
    case LayerTensor::kOBias:
    case LayerTensor::kDownBias:
      break;
  }
  return slice;
}

absl::StatusOr<WeightType> ParseWeightType(const std::string& text) {
  if (text == "auto") return WeightType::kAuto;
  if (text == "f32") return WeightType::kF32;
  if (text == "bf16") return WeightType::kBF16;
  return absl::InvalidArgumentError(
      absl::StrCat("weight type \"", text, "\"; accepted: auto, f32, bf16"));
}

WeightSource::WeightSource(const ModelConfig& config, const TensorNames& names,
                           Checkpoint checkpoint, Progress* progress)
    : config_(config), names_(&names), checkpoint_(std::move(checkpoint)), progress_(progress) {}

absl::StatusOr<WeightSource> WeightSource::Open(const std::string& folder,
                                                const ModelConfig& config, Progress* progress) {
  auto checkpoint = Checkpoint::Open(folder);
  if (!checkpoint.ok()) return checkpoint.status();
  const ModelFamily* family = FindModelFamily(config.model_type);
  SLUICE_CHECK(family != nullptr);  // or the configuration would not have loaded
  WeightSource source(config, *family->names, *std::move(checkpoint), progress);
  const std::string final_norm = source.PlaceOf(ModelTensor::kFinalNorm).name;
  source.has_prefix_ = false;
  const std::string bare_final_norm = source.PlaceOf(ModelTensor::kFinalNorm).name;
  source.has_prefix_ =
      source.checkpoint_.Has(final_norm) || !source.checkpoint_.Has(bare_final_norm);
  if (absl::Status checked = source.CheckTensors(); !checked.ok()) return checked;
  return source;
}

absl::Status WeightSource::CheckTensors() const {
  for (const ModelTensor tensor : ModelTensors(config_)) {
    const auto found = Find(PlaceOf(tensor));
    if (!found.ok()) return found.status();
  }
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    for (const LayerTensor tensor : LayerTensors(config_)) {
      const auto found = Find(PlaceOf(tensor, layer));
      if (!found.ok()) return found.status();
    }
  }
  return absl::OkStatus();
}

DType WeightSource::Resolve(WeightType type) const {
  if (type == WeightType::kF32) return DType::kF32;
  if (type == WeightType::kBF16) return DType::kBF16;
  const auto stored = Find(PlaceOf(LayerTensor::kQ, 0));
  SLUICE_CHECK(stored.ok());  // Open has found it
  return stored->type.dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
}

std::string WeightSource::NameOf(const char* module, const char* suffix) const {
  SLUICE_CHECK(module != nullptr);  // the family's table lacks what its mapping switches on
  absl::string_view name = module;
  if (!has_prefix_) absl::ConsumePrefix(&name, names_->optional_prefix);
  return absl::StrCat(name, suffix);
}

WeightSource::Place WeightSource::PlaceOf(LayerTensor tensor, int layer) const {
  const auto [module, suffix] = NameIn(*names_, tensor);
  SLUICE_CHECK(module != nullptr);
  const MatrixShape shape = ShapeOf(tensor, config_);
  Place place{
      .name = absl::StrCat(absl::Substitute(NameOf(names_->layer, ""), layer), module, suffix),
      .stored = shape,
      .run = shape.rows,
      .stride = shape.rows};
  place.transposed = names_->transposed && shape.columns > 1;
  place.is_norm_weight = tensor == LayerTensor::kInputNorm ||
                         tensor == LayerTensor::kPostAttentionNorm ||
                         tensor == LayerTensor::kQNorm || tensor == LayerTensor::kKNorm;
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

WeightSource::Place WeightSource::PlaceOf(ModelTensor tensor) const {
  const MatrixShape shape = ShapeOf(tensor, config_);
  Place place{.stored = shape, .run = shape.rows, .stride = shape.rows};
  place.is_norm_weight = tensor == ModelTensor::kFinalNorm;
  const std::string embedding = NameOf(names_->embedding, kWeightSuffix);
  const std::string head = NameOf(names_->head, kWeightSuffix);
  // A tied tensor may be stored under either name.
  const bool tied_as_head =
      config_.tied_embeddings && !checkpoint_.Has(embedding) && checkpoint_.Has(head);
  switch (tensor) {
    case ModelTensor::kEmbedding:
      place.name = tied_as_head ? head : embedding;
      break;
    case ModelTensor::kHead:
      place.name = config_.tied_embeddings && !tied_as_head ? embedding : head;
      break;
    case ModelTensor::kPositions:
      place.name = NameOf(names_->positions, kWeightSuffix);
      break;
    case ModelTensor::kFinalNorm:
      place.name = NameOf(names_->final_norm, kWeightSuffix);
      break;
    case ModelTensor::kFinalNormBias:
      place.name = NameOf(names_->final_norm, kBiasSuffix);
      break;
  }
  return place;
}

absl::StatusOr<StoredTensor> WeightSource::Find(const Place& place) const {
  const MatrixShape shape =
      place.transposed ? MatrixShape{place.stored.columns, place.stored.rows} : place.stored;
  return checkpoint_.Find(place.name, shape);
}

uint64_t WeightSource::StoredBytes(const Place& place, const TensorSlice& slice) const {
  const auto stored = Find(place);
  SLUICE_CHECK(stored.ok());  // Open has found it
  return static_cast<uint64_t>(slice.size()) * static_cast<uint64_t>(stored->type.size);
}

// Rows that lie together in the file.
absl::Status WeightSource::ReadRun(const Place& place, const TensorSlice& stored, DType as,
                                   absl::Span<std::byte> out) const {
  if (!place.transposed) return checkpoint_.Read(place.name, place.stored, stored, as, out);
  std::vector<std::byte> turned(out.size());
  const MatrixShape shape{place.stored.columns, place.stored.rows};
  const TensorSlice slice{stored.columns, stored.rows};
  absl::Status read = checkpoint_.Read(place.name, shape, slice, as, absl::MakeSpan(turned));
  if (read.ok()) Transpose(turned, {slice.rows.size(), slice.columns.size()}, SizeOf(as), out);
  return read;
}

absl::Status WeightSource::ReadPlaced(const Place& place, const TensorSlice& slice, DType as,
                                      absl::Span<std::byte> out) const {
  const size_t row_bytes = static_cast<size_t>(slice.columns.size()) * SizeOf(as);
  for (int64_t row = slice.rows.begin; row < slice.rows.end;) {
    const int64_t in_run = row % place.run;
    const int64_t count = std::min(place.run - in_run, slice.rows.end - row);
    const int64_t first = place.first_row + row / place.run * place.stride + in_run;
    const size_t bytes = static_cast<size_t>(count) * row_bytes;
    const TensorSlice stored{{first, first + count}, slice.columns};
    if (absl::Status read = ReadRun(place, stored, as, out.first(bytes)); !read.ok()) return read;
    out.remove_prefix(bytes);
    row += count;
  }
  if (progress_ != nullptr) progress_->Add(StoredBytes(place, slice));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> WeightSource::ReadPlacedFloats(const Place& place,
                                                                  const TensorSlice& slice) const {
  std::vector<float> floats(static_cast<size_t>(slice.size()));
  const auto bytes =
      absl::MakeSpan(reinterpret_cast<std::byte*>(floats.data()), floats.size() * sizeof(float));
  if (absl::Status read = ReadPlaced(place, slice, DType::kF32, bytes); !read.ok()) return read;
  if (place.is_norm_weight && config_.norm_weight_offset != 0) {
    for (float& value : floats) value += config_.norm_weight_offset;
  }
  return floats;
}

absl::Status WeightSource::Read(LayerTensor tensor, int layer, const TensorSlice& slice, DType as,
                                absl::Span<std::byte> out) const {
  return ReadPlaced(PlaceOf(tensor, layer), slice, as, out);
}

absl::Status WeightSource::Read(ModelTensor tensor, const TensorSlice& slice, DType as,
                                absl::Span<std::byte> out) const {
  return ReadPlaced(PlaceOf(tensor), slice, as, out);
}

absl::StatusOr<std::vector<float>> WeightSource::ReadFloats(LayerTensor tensor, int layer,
                                                            const TensorSlice& slice) const {
  return ReadPlacedFloats(PlaceOf(tensor, layer), slice);
}

absl::StatusOr<std::vector<float>> WeightSource::ReadFloats(ModelTensor tensor,
                                                            const TensorSlice& slice) const {
  return ReadPlacedFloats(PlaceOf(tensor), slice);
}

uint64_t WeightSource::BytesOf(const ShardPlan& plan) const {
  uint64_t bytes = 0;
  for (auto layer = static_cast<int>(plan.layers.begin); layer < plan.layers.end; ++layer) {
    for (const LayerTensor tensor : LayerTensors(config_)) {
      bytes += StoredBytes(PlaceOf(tensor, layer), SliceOf(tensor, config_, plan));
    }
  }
  return bytes;
}

uint64_t WeightSource::BytesOf(ModelTensor tensor) const {
  return StoredBytes(PlaceOf(tensor), WholeOf(ShapeOf(tensor, config_)));
}

}  // namespace sluice
