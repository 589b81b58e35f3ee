#include "services/shard/layer_weights.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace sluice {
namespace {

// Loads one layer; the first error ends it.
class LayerLoader {
 public:
  LayerLoader(const ModelConfig& config, const ShardPlan& plan, const WeightSource& source,
              int layer, DType dtype, Backend& backend)
      : config_(config),
        plan_(plan),
        source_(source),
        layer_(layer),
        dtype_(dtype),
        backend_(backend) {}

  // The parts below one another as one matrix.
  std::unique_ptr<PackedMatrix> Matrix(std::initializer_list<LayerTensor> parts,
                                       int64_t num_slices = 1);
  // The parts one after another as one vector.
  FloatVector Vector(std::initializer_list<LayerTensor> parts);

  const absl::Status& status() const { return status_; }

 private:
  TensorSlice SliceOf(LayerTensor part) const { return sluice::SliceOf(part, config_, plan_); }
  absl::Status ReadRows(absl::Span<const LayerTensor> parts, IndexRange rows,
                        absl::Span<std::byte> out) const;

  const ModelConfig& config_;
  const ShardPlan& plan_;
  const WeightSource& source_;
  const int layer_;
  const DType dtype_;
  Backend& backend_;
  absl::Status status_;
};

std::unique_ptr<PackedMatrix> LayerLoader::Matrix(std::initializer_list<LayerTensor> parts,
                                                  int64_t num_slices) {
  if (!status_.ok()) return nullptr;
  PackSpec spec{.num_inputs = SliceOf(*parts.begin()).columns.size(),
                .dtype = dtype_,
                .num_slices = static_cast<int>(num_slices)};
  for (const LayerTensor part : parts) spec.num_outputs += SliceOf(part).rows.size();
  auto packed = backend_.Pack(spec, [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
    return ReadRows(parts, {begin, end}, out);
  });
  status_ = packed.status();
  return packed.ok() ? *std::move(packed) : nullptr;
}

// Rows [rows.begin, rows.end) of the fused matrix: the overlap with each part in turn.
absl::Status LayerLoader::ReadRows(absl::Span<const LayerTensor> parts, IndexRange rows,
                                   absl::Span<std::byte> out) const {
  int64_t first = 0;  // fused row where the part begins
  for (const LayerTensor part : parts) {
    const TensorSlice slice = SliceOf(part);
    const int64_t begin = std::max(rows.begin, first) - first;
    const int64_t end = std::min(rows.end - first, slice.rows.size());
    first += slice.rows.size();
    if (begin >= end) continue;
    const TensorSlice wanted = slice.Rows(begin, end);
    const size_t bytes = wanted.size() * SizeOf(dtype_);
    absl::Status read = source_.Read(part, layer_, wanted, dtype_, out.first(bytes));
    if (!read.ok()) return read;
    out.remove_prefix(bytes);
  }
  return absl::OkStatus();
}

FloatVector LayerLoader::Vector(std::initializer_list<LayerTensor> parts) {
  if (!status_.ok()) return {};
  std::vector<float> values;
  for (const LayerTensor part : parts) {
    const auto read = source_.ReadFloats(part, layer_, SliceOf(part));
    status_ = read.status();
    if (!status_.ok()) return {};
    values.insert(values.end(), read->begin(), read->end());
  }
  auto memory = backend_.Allocate(values.size() * sizeof(float));
  status_ = memory.status();
  if (!status_.ok()) return {};
  backend_.CopyIn(
      {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)},
      (*memory)->data());
  status_ = backend_.Synchronize();  // `values` goes
  return {*std::move(memory)};
}

}  // namespace

size_t LayerWeights::size_bytes() const {
  size_t bytes = 0;
  for (const auto* matrix : {&qkv, &o, &gate_up, &down}) bytes += (*matrix)->size_bytes();
  for (const FloatVector* vector :
       {&input_norm, &qkv_bias, &o_bias, &post_attention_norm, &gate_up_bias, &down_bias}) {
    bytes += vector->size_bytes();
  }
  return bytes;
}

absl::StatusOr<LayerWeights> LoadLayerWeights(const ModelConfig& config, const ShardPlan& plan,
                                              const WeightSource& source, int layer, DType dtype,
                                              Backend& backend) {
  using enum LayerTensor;
  LayerLoader loader(config, plan, source, layer, dtype, backend);
  LayerWeights weights;
  weights.input_norm = loader.Vector({kInputNorm});
  weights.qkv = loader.Matrix({kQ, kK, kV});
  weights.o = loader.Matrix({kO}, plan.o_proj.slices.size());
  weights.post_attention_norm = loader.Vector({kPostAttentionNorm});
  weights.gate_up = loader.Matrix({kGate, kUp});
  weights.down = loader.Matrix({kDown}, plan.down_proj.slices.size());
  if (config.qkv_bias) weights.qkv_bias = loader.Vector({kQBias, kKBias, kVBias});
  if (config.o_bias) weights.o_bias = loader.Vector({kOBias});
  if (config.mlp_bias) {
    weights.gate_up_bias = loader.Vector({kGateBias, kUpBias});
    weights.down_bias = loader.Vector({kDownBias});
  }
  if (!loader.status().ok()) return loader.status();
  return weights;
}

}  // namespace sluice
