#include "services/shard/layer_weights.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "services/model/tensor_layout.h"
#include "services/shard/relative_bias.h"

namespace sluice {
namespace {

// Loads one layer; the first error ends it.
class LayerLoader {
 public:
  LayerLoader(const ModelConfig& config, const ShardPlan& plan, const WeightSource& source,
              int layer, const MatrixFormat& wanted, Backend& backend)
      : config_(config),
        plan_(plan),
        source_(source),
        layer_(layer),
        wanted_(wanted),
        backend_(backend) {}

  // The parts below one another as one matrix; those that the model lacks are left out, and null
  // where that is all of them. `expert` as TensorId has it.
  std::unique_ptr<PackedMatrix> Matrix(std::initializer_list<TensorRole> parts,
                                       int64_t num_slices = 1, int expert = -1);
  // The parts one after another as one vector; those that the model lacks are left out.
  FloatVector Vector(std::initializer_list<TensorRole> parts);
  // The parts below one another as one matrix of floats, transposed.
  FloatVector Transposed(std::initializer_list<TensorRole> parts);
  // DistanceBias::values of the layer's heads.
  FloatVector RelativeBias(const AttentionSpec& attention);
  // Weights of a norm that has none.
  FloatVector Ones(int size) { return Allocated(std::vector<float>(size, 1.0F)); }
  // A vector times a factor, and the only element of one.
  FloatVector Scaled(TensorRole part, float factor);
  float Number(TensorRole part);
  // Such a matrix of each expert, and the vectors of all of them as one.
  std::unique_ptr<ExpertMatrices> Experts(std::initializer_list<TensorRole> parts, int num_experts,
                                          int64_t num_slices = 1);
  FloatVector ExpertVectors(std::initializer_list<TensorRole> parts, int num_experts);

  // Some rows of every head of a tensor whose heads have `head_rows` each, as a matrix for each
  // head.
  enum class Orientation { kAsStored, kTransposed };
  HeadMatrices OfHeads(TensorRole role, int64_t head_rows, IndexRange rows,
                       Orientation orientation);

  int hidden_size() const { return config_.hidden_size; }
  const absl::Status& status() const { return status_; }

 private:
  // The elements of the parts one after another; empty after an error.
  std::vector<float> FloatsOf(const std::vector<TensorId>& parts);
  std::unique_ptr<PackedMatrix> OfHead(TensorId tensor, IndexRange rows, Orientation orientation);
  std::vector<TensorId> Present(std::initializer_list<TensorRole> roles, int expert = -1) const;
  FloatVector VectorOf(const std::vector<TensorId>& parts);
  FloatVector Allocated(const std::vector<float>& values);
  TensorSlice SliceOf(TensorId part) const { return sluice::SliceOf(part, config_, plan_); }
  RowReader ReaderOf(const std::vector<TensorId>& parts, const PackSpec& spec);
  absl::Status ReadRows(absl::Span<const TensorId> parts, IndexRange rows, WeightFormat format,
                        absl::Span<std::byte> out) const;

  const ModelConfig& config_;
  const ShardPlan& plan_;
  const WeightSource& source_;
  const int layer_;
  const MatrixFormat wanted_;
  Backend& backend_;
  absl::Status status_;
};

std::vector<TensorId> LayerLoader::Present(std::initializer_list<TensorRole> roles,
                                           int expert) const {
  std::vector<TensorId> present;
  for (const TensorRole role : roles) {
    const TensorId tensor{role, layer_, expert};
    if (HasTensor(tensor, config_)) present.push_back(tensor);
  }
  return present;
}

std::unique_ptr<PackedMatrix> LayerLoader::Matrix(std::initializer_list<TensorRole> wanted,
                                                  int64_t num_slices, int expert) {
  const std::vector<TensorId> parts = Present(wanted, expert);
  if (!status_.ok() || parts.empty()) return nullptr;
  PackSpec spec{.num_inputs = SliceOf(parts.front()).columns.size(),
                // Parts that are fused read the same inputs, so one format is that of all.
                .format = FormatOf(parts.front(), config_, wanted_.weights),
                .num_slices = static_cast<int>(num_slices)};
  const MatrixFormat product(spec.format.weights, wanted_.activations);
  if (product.IsSupported()) spec.format = product;
  for (const TensorId part : parts) spec.num_outputs += SliceOf(part).rows.size();
  const TensorRole first = parts.front().role;
  spec.gated = first == TensorRole::kGate || first == TensorRole::kSharedGate;
  const RowReader reader = ReaderOf(parts, spec);
  if (!status_.ok()) return nullptr;
  auto packed = backend_.Pack(spec, reader);
  status_ = packed.status();
  return packed.ok() ? *std::move(packed) : nullptr;
}

HeadMatrices LayerLoader::OfHeads(TensorRole role, int64_t head_rows, IndexRange rows,
                                  Orientation orientation) {
  HeadMatrices matrices;
  const TensorId tensor{role, layer_};
  for (int64_t first = 0; first < SliceOf(tensor).rows.size(); first += head_rows) {
    matrices.Add(OfHead(tensor, {first + rows.begin, first + rows.end}, orientation));
    if (!status_.ok()) break;
  }
  return matrices;
}

// Of rows of the rank's slice, counted from its first.
std::unique_ptr<PackedMatrix> LayerLoader::OfHead(TensorId tensor, IndexRange rows,
                                                  Orientation orientation) {
  if (!status_.ok()) return nullptr;
  const TensorSlice slice = SliceOf(tensor).Rows(rows.begin, rows.end);
  const WeightFormat format = FormatOf(tensor, config_, wanted_.weights);
  const MatrixShape shape{slice.rows.size(), slice.columns.size()};
  std::vector<std::byte> elements(shape.rows * RowBytes(format, shape.columns));
  status_ = source_.Read(tensor, slice, format, absl::MakeSpan(elements));
  if (!status_.ok()) return nullptr;
  PackSpec spec{.num_outputs = shape.rows, .num_inputs = shape.columns, .format = format};
  if (orientation == Orientation::kTransposed) {
    std::swap(spec.num_outputs, spec.num_inputs);
    std::vector<std::byte> turned(elements.size());
    Transpose(elements, shape, elements.size() / shape.size(), absl::MakeSpan(turned));
    elements = std::move(turned);
  }
  const size_t row_bytes = RowBytes(format, spec.num_inputs);
  auto packed = backend_.Pack(spec, [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
    std::copy_n(elements.begin() + begin * row_bytes, (end - begin) * row_bytes, out.begin());
    return absl::OkStatus();
  });
  status_ = packed.status();
  return packed.ok() ? *std::move(packed) : nullptr;
}

// From the file a few rows at a time or, where that is slow, from a copy of the whole matrix, which
// lives as long as the reader.
RowReader LayerLoader::ReaderOf(const std::vector<TensorId>& parts, const PackSpec& spec) {
  if (!source_.ReadsWhole(parts.front())) {
    return [this, parts, format = spec.format.weights](int64_t begin, int64_t end,
                                                       absl::Span<std::byte> out) {
      return ReadRows(parts, {begin, end}, format, out);
    };
  }
  const size_t row_bytes = RowBytes(spec.format.weights, spec.num_inputs);
  auto copy = std::make_shared<std::vector<std::byte>>(spec.num_outputs * row_bytes);
  status_ = ReadRows(parts, {0, spec.num_outputs}, spec.format.weights, absl::MakeSpan(*copy));
  return [copy, row_bytes](int64_t begin, int64_t end, absl::Span<std::byte> out) {
    std::copy_n(copy->begin() + begin * row_bytes, (end - begin) * row_bytes, out.begin());
    return absl::OkStatus();
  };
}

// Rows [rows.begin, rows.end) of the fused matrix: the overlap with each part in turn.
absl::Status LayerLoader::ReadRows(absl::Span<const TensorId> parts, IndexRange rows,
                                   WeightFormat format, absl::Span<std::byte> out) const {
  int64_t first = 0;  // fused row where the part begins
  for (const TensorId part : parts) {
    const TensorSlice slice = SliceOf(part);
    const int64_t begin = std::max(rows.begin, first) - first;
    const int64_t end = std::min(rows.end - first, slice.rows.size());
    first += slice.rows.size();
    if (begin >= end) continue;
    const TensorSlice wanted = slice.Rows(begin, end);
    const size_t bytes = wanted.rows.size() * RowBytes(format, wanted.columns.size());
    absl::Status read = source_.Read(part, wanted, format, out.first(bytes));
    if (!read.ok()) return read;
    out.remove_prefix(bytes);
  }
  return absl::OkStatus();
}

std::unique_ptr<ExpertMatrices> LayerLoader::Experts(std::initializer_list<TensorRole> wanted,
                                                     int num_experts, int64_t num_slices) {
  std::vector<std::unique_ptr<PackedMatrix>> matrices(num_experts);
  for (int expert = 0; expert < num_experts; ++expert) {
    matrices[expert] = Matrix(wanted, num_slices, expert);
  }
  return status_.ok() ? std::make_unique<ExpertMatrices>(std::move(matrices)) : nullptr;
}

FloatVector LayerLoader::Vector(std::initializer_list<TensorRole> wanted) {
  return VectorOf(Present(wanted));
}

FloatVector LayerLoader::Transposed(std::initializer_list<TensorRole> wanted) {
  MatrixShape shape;
  std::vector<float> values;
  for (const TensorId part : Present(wanted)) {
    if (!status_.ok()) return {};
    const TensorSlice slice = SliceOf(part);
    const auto read = source_.ReadFloats(part, slice);
    status_ = read.status();
    if (!status_.ok()) return {};
    values.insert(values.end(), read->begin(), read->end());
    shape = {shape.rows + slice.rows.size(), slice.columns.size()};
  }
  std::vector<float> turned(values.size());
  Transpose({reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)},
            shape, sizeof(float),
            {reinterpret_cast<std::byte*>(turned.data()), turned.size() * sizeof(float)});
  return Allocated(turned);
}

FloatVector LayerLoader::ExpertVectors(std::initializer_list<TensorRole> wanted, int num_experts) {
  std::vector<TensorId> parts;
  for (int expert = 0; expert < num_experts; ++expert) {
    for (const TensorId part : Present(wanted, expert)) parts.push_back(part);
  }
  return VectorOf(parts);
}

std::vector<float> LayerLoader::FloatsOf(const std::vector<TensorId>& parts) {
  std::vector<float> values;
  for (const TensorId part : parts) {
    if (!status_.ok()) return {};
    const auto read = source_.ReadFloats(part, SliceOf(part));
    status_ = read.status();
    if (read.ok()) values.insert(values.end(), read->begin(), read->end());
  }
  return values;
}

FloatVector LayerLoader::VectorOf(const std::vector<TensorId>& parts) {
  if (!status_.ok() || parts.empty()) return {};
  return Allocated(FloatsOf(parts));
}

FloatVector LayerLoader::Scaled(TensorRole part, float factor) {
  std::vector<float> values = FloatsOf(Present({part}));
  for (float& value : values) value *= factor;
  return values.empty() ? FloatVector() : Allocated(values);
}

FloatVector LayerLoader::RelativeBias(const AttentionSpec& attention) {
  const std::vector<TensorId> parts = Present({TensorRole::kRelativeBias});
  const std::vector<float> by_bucket = FloatsOf(parts);
  if (by_bucket.empty()) return {};
  return Allocated(BiasByDistance(by_bucket, static_cast<int>(SliceOf(parts[0]).columns.size()),
                                  *attention.relative,
                                  attention.ahead > 0 ? BiasSides::kBoth : BiasSides::kBefore));
}

float LayerLoader::Number(TensorRole part) {
  const std::vector<float> values = FloatsOf(Present({part}));
  return values.empty() ? 1 : values.front();
}

FloatVector LayerLoader::Allocated(const std::vector<float>& values) {
  if (!status_.ok()) return {};
  auto memory = backend_.Allocate(values.size() * sizeof(float));
  status_ = memory.status();
  if (!status_.ok()) return {};
  backend_.CopyIn(
      {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)},
      (*memory)->data());
  return {*std::move(memory)};
}

std::unique_ptr<LatentWeights> LoadLatent(const LatentSpec& spec, LayerLoader& loader) {
  using enum TensorRole;
  auto weights = std::make_unique<LatentWeights>();
  if (spec.query_rank > 0) {
    weights->q_in = loader.Matrix({kQA});
    weights->q_in_bias = loader.Vector({kQABias});
    weights->q_norm = loader.Vector({kQANorm});
    weights->q_b = loader.Matrix({kQB});
  } else {
    weights->q_in = loader.Matrix({kQ});
  }
  weights->kv_a = loader.Matrix({kKvA});
  weights->kv_a_bias = loader.Vector({kKvABias});
  weights->kv_norm = loader.Vector({kKvANorm});
  const int64_t head_rows = spec.nope_dim + spec.value_dim;
  weights->key_maps =
      loader.OfHeads(kKvB, head_rows, {0, spec.nope_dim}, LayerLoader::Orientation::kTransposed);
  weights->value_maps = loader.OfHeads(kKvB, head_rows, {spec.nope_dim, head_rows},
                                       LayerLoader::Orientation::kAsStored);
  return weights;
}

std::unique_ptr<RecurrentWeights> LoadRecurrent(const RecurrentSpec& spec, const ShardPlan& plan,
                                                LayerLoader& loader) {
  using enum TensorRole;
  auto weights = std::make_unique<RecurrentWeights>();
  weights->spec = spec;
  weights->mixed = loader.Matrix({kRecurrentQ, kRecurrentK, kRecurrentV});
  weights->gate = loader.Matrix({kRecurrentGate});
  weights->beta = loader.Matrix({kBeta});
  weights->decay = loader.Matrix({kDecay});
  weights->conv = loader.Transposed({kConvQ, kConvK, kConvV});
  weights->conv_bias = loader.Vector({kConvQBias, kConvKBias, kConvVBias});
  weights->decay_bias = loader.Vector({kDecayBias});
  weights->log_rate = loader.Vector({kLogRate});
  weights->skip = loader.Vector({kSkip});
  weights->norm = loader.Vector({kRecurrentNorm});
  weights->out = loader.Matrix({kRecurrentOut}, plan.recurrent_out.slices.size());
  return weights;
}

AttentionWeights LoadAttention(int layer, const ModelConfig& config, const ShardPlan& plan,
                               LayerLoader& loader) {
  using enum TensorRole;
  const AttentionSpec& spec = config.layers[layer].attention;
  const int head_dim = config.head_dim_of(layer);
  AttentionWeights weights{.spec = spec};
  if (spec.recurrent.has_value()) {
    weights.recurrent = LoadRecurrent(*spec.recurrent, plan, loader);
  }
  if (!spec.has_keys()) return weights;
  weights.gate = loader.Matrix({kQGate});
  const bool has_kv = spec.kv_source < 0;
  weights.num_kv_heads = has_kv ? static_cast<int>(KvHeadsOf(layer, config, plan).size()) : 0;
  weights.head_dim = head_dim;
  if (spec.value_norm) weights.value_norm = loader.Ones(head_dim);
  if (spec.latent.has_value()) {
    weights.latent = LoadLatent(*spec.latent, loader);
  } else {
    weights.qkv = loader.Matrix({kQ, kK, kV});
  }
  weights.qkv_bias = loader.Vector({kQBias, kKBias, kVBias});
  weights.q_norm = loader.Vector({kQNorm});
  weights.k_norm = loader.Vector({kKNorm});
  if (spec.qk_norm && spec.qk_norm_kind == QkNormKind::kPlainHeadRms) {
    weights.q_norm = loader.Ones(head_dim);
    weights.k_norm = loader.Ones(head_dim);
  }
  weights.q_norm_bias = loader.Vector({kQNormBias});
  weights.k_norm_bias = loader.Vector({kKNormBias});
  weights.o = loader.Matrix({kO}, plan.o_proj.slices.size());
  weights.o_bias = loader.Vector({kOBias});
  weights.sinks = loader.Vector({kSinks});
  weights.distance_bias = loader.RelativeBias(spec);
  return weights;
}

std::unique_ptr<CrossWeights> LoadCross(const ShardPlan& plan, LayerLoader& loader) {
  using enum TensorRole;
  auto weights = std::make_unique<CrossWeights>();
  weights->norm = {loader.Vector({kCrossNorm}), loader.Vector({kCrossNormBias})};
  weights->post_norm = {loader.Vector({kCrossPostNorm}), loader.Vector({kCrossPostNormBias})};
  weights->q = loader.Matrix({kCrossQ});
  weights->kv = loader.Matrix({kCrossK, kCrossV});
  weights->o = loader.Matrix({kCrossO}, plan.o_proj.slices.size());
  weights->q_bias = loader.Vector({kCrossQBias});
  weights->kv_bias = loader.Vector({kCrossKBias, kCrossVBias});
  weights->o_bias = loader.Vector({kCrossOBias});
  return weights;
}

DenseMlpWeights LoadMlp(const DenseMlpSpec& spec, const ShardPlan& plan, LayerLoader& loader) {
  using enum TensorRole;
  DenseMlpWeights weights{.spec = spec};
  weights.gate_up = loader.Matrix({kGate, kUp});
  weights.gate_up_bias = loader.Vector({kGateBias, kUpBias});
  weights.down = loader.Matrix({kDown}, plan.MlpOf(spec.width).down_proj.slices.size());
  weights.down_bias = loader.Vector({kDownBias});
  return weights;
}

void AppendMatrices(const RecurrentWeights& recurrent, std::vector<const PackedMatrix*>& matrices) {
  for (const auto* matrix :
       {&recurrent.mixed, &recurrent.gate, &recurrent.beta, &recurrent.decay, &recurrent.out}) {
    if (*matrix != nullptr) matrices.push_back(matrix->get());
  }
}

size_t VectorBytes(const RecurrentWeights& recurrent) {
  size_t bytes = 0;
  for (const FloatVector* vector : {&recurrent.conv, &recurrent.conv_bias, &recurrent.decay_bias,
                                    &recurrent.log_rate, &recurrent.skip, &recurrent.norm}) {
    bytes += vector->size_bytes();
  }
  return bytes;
}

void AppendMatrices(const LatentWeights& latent, std::vector<const PackedMatrix*>& matrices) {
  matrices.push_back(latent.q_in.get());
  if (latent.q_b != nullptr) matrices.push_back(latent.q_b.get());
  matrices.push_back(latent.kv_a.get());
  for (const auto* maps : {&latent.key_maps, &latent.value_maps}) {
    matrices.insert(matrices.end(), maps->all().begin(), maps->all().end());
  }
}

size_t VectorBytes(const LatentWeights& latent) {
  return latent.q_in_bias.size_bytes() + latent.q_norm.size_bytes() +
         latent.kv_a_bias.size_bytes() + latent.kv_norm.size_bytes();
}

MixtureWeights LoadMlp(const MixtureSpec& spec, const ShardPlan& plan, LayerLoader& loader) {
  using enum TensorRole;
  const int hidden = loader.hidden_size();
  const int num_experts = spec.router.num_experts;
  const IndexRange slices = plan.MlpOf(spec, spec.expert.width).down_proj.slices;
  MixtureWeights weights{.spec = spec};
  weights.router = loader.Matrix({kRouter});
  weights.router_bias = loader.Vector({kRouterBias});
  weights.choice_bias = loader.Vector({kChoiceBias});
  weights.gate_up = loader.Experts({kGate, kUp}, num_experts);
  weights.gate_up_bias = loader.ExpertVectors({kGateBias, kUpBias}, num_experts);
  weights.down = loader.Experts({kDown}, num_experts, slices.size());
  if (slices.begin == 0) weights.down_bias = loader.ExpertVectors({kDownBias}, num_experts);
  weights.shared_gate_up = loader.Matrix({kSharedGate, kSharedUp});
  weights.shared_down = loader.Matrix({kSharedDown}, slices.size());
  weights.shared_score = loader.Matrix({kSharedScore});
  weights.expert_factors = loader.Vector({kExpertFactors});
  if (!spec.beside.has_value()) return weights;
  weights.beside = LoadMlp(*spec.beside, plan, loader);
  weights.mixture_norm = loader.Vector({kMixtureNorm});
  weights.beside_post_norm = loader.Vector({kBesidePostNorm});
  weights.mixture_post_norm = loader.Vector({kMixturePostNorm});
  weights.router_norm = loader.Scaled(kRouterScale, 1 / std::sqrt(static_cast<float>(hidden)));
  return weights;
}

NoMlpWeights LoadMlp(const NoMlpSpec&, const ShardPlan&, LayerLoader&) { return {}; }

void AppendMatrices(const NoMlpWeights&, std::vector<const PackedMatrix*>&) {}
size_t OtherBytes(const NoMlpWeights&) { return 0; }

void AppendMatrices(const DenseMlpWeights& mlp, std::vector<const PackedMatrix*>& matrices) {
  matrices.insert(matrices.end(), {mlp.gate_up.get(), mlp.down.get()});
}

void AppendMatrices(const MixtureWeights& mlp, std::vector<const PackedMatrix*>& matrices) {
  for (const auto* matrix : {&mlp.router, &mlp.shared_gate_up, &mlp.shared_down, &mlp.shared_score,
                             &mlp.beside.gate_up, &mlp.beside.down}) {
    if (*matrix != nullptr) matrices.push_back(matrix->get());
  }
}

// Of what AppendMatrices leaves out.
size_t OtherBytes(const DenseMlpWeights& mlp) {
  return mlp.gate_up_bias.size_bytes() + mlp.down_bias.size_bytes();
}
size_t OtherBytes(const MixtureWeights& mlp) {
  size_t bytes = 0;
  for (const ExpertMatrices* experts : {mlp.gate_up.get(), mlp.down.get()}) {
    for (int expert = 0; expert < experts->num_experts(); ++expert) {
      bytes += experts->Of(expert).size_bytes();
    }
  }
  for (const FloatVector* vector :
       {&mlp.router_bias, &mlp.choice_bias, &mlp.gate_up_bias, &mlp.down_bias, &mlp.mixture_norm,
        &mlp.beside_post_norm, &mlp.mixture_post_norm, &mlp.router_norm, &mlp.expert_factors}) {
    bytes += vector->size_bytes();
  }
  return bytes;
}

}  // namespace

size_t CrossWeights::vector_bytes() const {
  size_t bytes = 0;
  for (const FloatVector* vector :
       {&norm.weight, &norm.bias, &post_norm.weight, &post_norm.bias, &q_bias, &kv_bias, &o_bias}) {
    bytes += vector->size_bytes();
  }
  return bytes;
}

std::vector<const PackedMatrix*> LayerWeights::matrices() const {
  std::vector<const PackedMatrix*> matrices;
  for (const auto* matrix : {&attention.o, &attention.qkv, &attention.gate}) {
    if (*matrix != nullptr) matrices.push_back(matrix->get());
  }
  if (cross != nullptr) {
    matrices.insert(matrices.end(), {cross->q.get(), cross->kv.get(), cross->o.get()});
  }
  if (attention.latent != nullptr) AppendMatrices(*attention.latent, matrices);
  if (attention.recurrent != nullptr) AppendMatrices(*attention.recurrent, matrices);
  std::visit([&](const auto& kind) { AppendMatrices(kind, matrices); }, mlp);
  if (side_gate != nullptr) matrices.insert(matrices.end(), {side_gate.get(), side_out.get()});
  return matrices;
}

size_t LayerWeights::size_bytes() const {
  size_t bytes = std::visit([](const auto& kind) { return OtherBytes(kind); }, mlp);
  if (cross != nullptr) bytes += cross->vector_bytes();
  if (attention.latent != nullptr) bytes += VectorBytes(*attention.latent);
  if (attention.recurrent != nullptr) bytes += VectorBytes(*attention.recurrent);
  for (const PackedMatrix* matrix : matrices()) bytes += matrix->size_bytes();
  for (const FloatVector* vector :
       {&attention_norm.weight,      &attention_norm.bias,      &attention.qkv_bias,
        &attention.q_norm,           &attention.k_norm,         &attention.q_norm_bias,
        &attention.k_norm_bias,      &attention.o_bias,         &attention.sinks,
        &attention.value_norm,       &mlp_norm.weight,          &mlp_norm.bias,
        &attention_post_norm.weight, &attention_post_norm.bias, &mlp_post_norm.weight,
        &mlp_post_norm.bias,         &side_norm.weight,         &leaving_norm.weight,
        &leaving_norm.bias,          &attention.distance_bias}) {
    bytes += vector->size_bytes();
  }
  return bytes;
}

absl::StatusOr<LayerWeights> LoadLayerWeights(const ModelConfig& config, const ShardPlan& plan,
                                              const WeightSource& source, int layer,
                                              const MatrixFormat& wanted, Backend& backend) {
  using enum TensorRole;
  const LayerSpec& spec = config.layers[layer];
  LayerLoader loader(config, plan, source, layer, wanted, backend);
  LayerWeights weights{.parallel_residual = spec.parallel_residual,
                       .norms = spec.norms,
                       .reads = spec.reads,
                       .residual_multiplier = spec.residual_multiplier};
  weights.attention_norm = {loader.Vector({kAttentionNorm}), loader.Vector({kAttentionNormBias})};
  weights.attention = LoadAttention(layer, config, plan, loader);
  weights.mlp_norm = {loader.Vector({kMlpNorm}), loader.Vector({kMlpNormBias})};
  weights.mlp = std::visit(
      [&](const auto& mlp) -> MlpWeights { return LoadMlp(mlp, plan, loader); }, spec.mlp);
  weights.attention_post_norm = {loader.Vector({kAttentionPostNorm}),
                                 loader.Vector({kAttentionPostNormBias})};
  weights.mlp_post_norm = {loader.Vector({kMlpPostNorm}), loader.Vector({kMlpPostNormBias})};
  weights.leaving_norm = {loader.Vector({kLeavingNorm}), loader.Vector({kLeavingNormBias})};
  if (spec.reads == LayerSpec::Reads::kTextAndSource) weights.cross = LoadCross(plan, loader);
  weights.side_gate = loader.Matrix({kSideGate});
  weights.side_out = loader.Matrix({kSideOut});
  weights.side_norm.weight = loader.Vector({kSideNorm});
  if (spec.side.has_value()) weights.side_activation = spec.side->activation;
  if (spec.output_factor) weights.output_factor = loader.Number(kOutputFactor);
  if (!loader.status().ok()) return loader.status();
  return weights;
}

}  // namespace sluice
