#include "services/model/weights.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "kernels/check.h"
#include "services/model/model_families.h"

namespace sluice {
namespace {

constexpr ModelTensor kModelTensors[] = {ModelTensor::kEmbedding, ModelTensor::kFinalNorm,
                                         ModelTensor::kHead};

bool HasTensor(LayerTensor tensor, const ModelConfig& config) {
  switch (tensor) {
    case LayerTensor::kGate:
      return config.has_gate();
    case LayerTensor::kQBias:
    case LayerTensor::kKBias:
    case LayerTensor::kVBias:
      return config.qkv_bias;
    case LayerTensor::kOBias:
      return config.o_bias;
    case LayerTensor::kGateBias:
      return config.mlp_bias && config.has_gate();
    case LayerTensor::kUpBias:
    case LayerTensor::kDownBias:
      return config.mlp_bias;
    default:
      return true;
  }
}

IndexRange Scaled(IndexRange range, int64_t factor) {
  return {range.begin * factor, range.end * factor};
}

}  // namespace

std::vector<LayerTensor> LayerTensors(const ModelConfig& config) {
  std::vector<LayerTensor> tensors;
  for (int index = 0; index < kNumLayerTensors; ++index) {
    const auto tensor = static_cast<LayerTensor>(index);
    if (HasTensor(tensor, config)) tensors.push_back(tensor);
  }
  return tensors;
}

MatrixShape ShapeOf(LayerTensor tensor, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  const int64_t mlp = config.intermediate_size;
  switch (tensor) {
    case LayerTensor::kInputNorm:
    case LayerTensor::kPostAttentionNorm:
    case LayerTensor::kOBias:
    case LayerTensor::kDownBias:
      return {hidden, 1};
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
  if (tensor == ModelTensor::kFinalNorm) return {config.hidden_size, 1};
  return {config.vocab_size, config.hidden_size};
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

WeightSource::WeightSource(ModelConfig config, Checkpoint checkpoint, Progress* progress)
    : config_(std::move(config)), checkpoint_(std::move(checkpoint)), progress_(progress) {}

absl::StatusOr<WeightSource> WeightSource::Open(const std::string& folder,
                                                const ModelConfig& config, Progress* progress) {
  auto checkpoint = Checkpoint::Open(folder);
  if (!checkpoint.ok()) return checkpoint.status();
  WeightSource source(config, *std::move(checkpoint), progress);
  if (absl::Status checked = source.CheckTensors(); !checked.ok()) return checked;
  return source;
}

absl::Status WeightSource::CheckTensors() const {
  for (const ModelTensor tensor : kModelTensors) {
    const auto found = checkpoint_.Find(NameOf(tensor), ShapeOf(tensor, config_));
    if (!found.ok()) return found.status();
  }
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    for (const LayerTensor tensor : LayerTensors(config_)) {
      const auto found = checkpoint_.Find(NameOf(tensor, layer), ShapeOf(tensor, config_));
      if (!found.ok()) return found.status();
    }
  }
  return absl::OkStatus();
}

DType WeightSource::Resolve(WeightType type) const {
  if (type == WeightType::kF32) return DType::kF32;
  if (type == WeightType::kBF16) return DType::kBF16;
  const auto stored =
      checkpoint_.Find(NameOf(LayerTensor::kQ, 0), ShapeOf(LayerTensor::kQ, config_));
  SLUICE_CHECK(stored.ok());  // Open has found it
  return stored->type.dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
}

std::string WeightSource::NameOf(LayerTensor tensor, int layer) const {
  const TensorNames& names = *FindModelFamily(config_.model_type)->names;
  return absl::Substitute(names.layer[static_cast<size_t>(tensor)], layer);
}

std::string WeightSource::NameOf(ModelTensor tensor) const {
  const TensorNames& names = *FindModelFamily(config_.model_type)->names;
  const auto name = [&](ModelTensor t) { return std::string(names.model[static_cast<size_t>(t)]); };
  if (!config_.tied_embeddings || tensor == ModelTensor::kFinalNorm) return name(tensor);
  // A tied pair is stored once, under either name; the embedding's counts where both are there.
  const std::string embedding = name(ModelTensor::kEmbedding);
  const std::string head = name(ModelTensor::kHead);
  return checkpoint_.Has(embedding) || !checkpoint_.Has(head) ? embedding : head;
}

uint64_t WeightSource::StoredBytes(const std::string& name, MatrixShape shape,
                                   const TensorSlice& slice) const {
  const auto stored = checkpoint_.Find(name, shape);
  SLUICE_CHECK(stored.ok());  // Open has found it
  return static_cast<uint64_t>(slice.size()) * static_cast<uint64_t>(stored->type.size);
}

absl::Status WeightSource::ReadNamed(const std::string& name, MatrixShape shape,
                                     const TensorSlice& slice, DType as,
                                     absl::Span<std::byte> out) const {
  if (absl::Status read = checkpoint_.Read(name, shape, slice, as, out); !read.ok()) return read;
  if (progress_ != nullptr) progress_->Add(StoredBytes(name, shape, slice));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> WeightSource::ReadNamedFloats(const std::string& name,
                                                                 MatrixShape shape,
                                                                 const TensorSlice& slice) const {
  std::vector<float> floats(static_cast<size_t>(slice.size()));
  const auto bytes =
      absl::MakeSpan(reinterpret_cast<std::byte*>(floats.data()), floats.size() * sizeof(float));
  if (absl::Status read = ReadNamed(name, shape, slice, DType::kF32, bytes); !read.ok())
    return read;
  return floats;
}

absl::Status WeightSource::Read(LayerTensor tensor, int layer, const TensorSlice& slice, DType as,
                                absl::Span<std::byte> out) const {
  return ReadNamed(NameOf(tensor, layer), ShapeOf(tensor, config_), slice, as, out);
}

absl::Status WeightSource::Read(ModelTensor tensor, const TensorSlice& slice, DType as,
                                absl::Span<std::byte> out) const {
  return ReadNamed(NameOf(tensor), ShapeOf(tensor, config_), slice, as, out);
}

absl::StatusOr<std::vector<float>> WeightSource::ReadFloats(LayerTensor tensor, int layer,
                                                            const TensorSlice& slice) const {
  return ReadNamedFloats(NameOf(tensor, layer), ShapeOf(tensor, config_), slice);
}

absl::StatusOr<std::vector<float>> WeightSource::ReadFloats(ModelTensor tensor,
                                                            const TensorSlice& slice) const {
  return ReadNamedFloats(NameOf(tensor), ShapeOf(tensor, config_), slice);
}

uint64_t WeightSource::BytesOf(const ShardPlan& plan) const {
  uint64_t bytes = 0;
  for (auto layer = static_cast<int>(plan.layers.begin); layer < plan.layers.end; ++layer) {
    for (const LayerTensor tensor : LayerTensors(config_)) {
      bytes += StoredBytes(NameOf(tensor, layer), ShapeOf(tensor, config_),
                           SliceOf(tensor, config_, plan));
    }
  }
  return bytes;
}

uint64_t WeightSource::BytesOf(ModelTensor tensor) const {
  const MatrixShape shape = ShapeOf(tensor, config_);
  return StoredBytes(NameOf(tensor), shape, WholeOf(shape));
}

}  // namespace sluice
