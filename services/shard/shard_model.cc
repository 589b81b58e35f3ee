#include "services/shard/shard_model.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/check.h"

namespace sluice {
namespace {

absl::Status CheckOptions(const ShardModelOptions& options) {
  const auto at_least_one = [](const char* name, int value) {
    return value >= 1 ? absl::OkStatus()
                      : absl::InvalidArgumentError(
                            absl::StrCat(name, " is ", value, "; accepted: 1 or more"));
  };
  absl::Status status = at_least_one("block_size", options.block_size);
  status.Update(at_least_one("max_step_rows", options.max_step_rows));
  if (!(options.device_share > 0 && options.device_share <= 1)) {
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("device_share is ", options.device_share, "; accepted: above 0, at most 1")));
  }
  if (!IsKvType(options.kv_dtype)) {
    status.Update(absl::InvalidArgumentError(absl::StrCat(
        "kv_dtype is ", std::string(Name(options.kv_dtype)), "; accepted: F32, BF16, F8_E4M3")));
  }
  return status;
}

// Latents are the same on every rank.
KvPoolSpec LatentKvSpec(const LatentSpec& latent, const ShardPlan& plan, int block_size,
                        DType dtype) {
  return {.num_layers = static_cast<int>(plan.layers.size()),
          .block_size = block_size,
          .num_kv_heads = 1,
          .head_dim = latent.stored_dim(),
          .dtype = dtype,
          .latent_dim = latent.rank};
}

KvPoolSpec KvSpec(const ModelConfig& config, const ShardPlan& plan, int block_size, DType dtype) {
  if (config.latent() != nullptr) {
    return LatentKvSpec(*config.latent(), plan, block_size, dtype);
  }
  return {.num_layers = static_cast<int>(plan.layers.size()),
          .block_size = block_size,
          .num_kv_heads = static_cast<int>(plan.kv_heads.size()),
          .head_dim = config.head_dim,
          .dtype = dtype};
}

uint64_t BytesPerBlock(const KvPoolSpec& spec) {
  return uint64_t{1} * spec.num_layers * spec.block_size * spec.bytes_per_position();
}

// The rank's columns of the stage's widest MLP.
int64_t WidestMlp(const ModelConfig& config, const ShardPlan& plan) {
  int64_t widest = 0;
  for (int64_t layer = plan.layers.begin; layer < plan.layers.end; ++layer) {
    const auto width = [&](const DenseMlpSpec& mlp) {
      return plan.MlpOf(mlp.width).columns.size();
    };
    widest = std::max(widest, std::visit(width, config.layers[layer].mlp));
  }
  return widest;
}

LatentStepShape LatentShapeOfStep(const LatentSpec& latent, const ShardPlan& plan) {
  return {.query_rank = latent.query_rank,
          .stored_dim = latent.stored_dim(),
          .absorbed_width = plan.heads.size() * latent.stored_dim(),
          .mixed_width = plan.heads.size() * latent.rank};
}

StepShape ShapeOfStep(const ModelConfig& config, const ShardPlan& plan, int64_t max_rows,
                      const Backend& backend) {
  StepShape shape{.max_rows = backend.BucketRows(max_rows),
                  .hidden = config.hidden_size,
                  .query_width = plan.heads.size() * config.head_dim,
                  .value_width = plan.heads.size() * config.value_dim(),
                  .mlp_width = WidestMlp(config, plan),
                  .num_ranks = plan.placement.num_ranks,
                  .operand_dtype = backend.operand_dtype()};
  if (config.latent() != nullptr) {
    shape.latent = LatentShapeOfStep(*config.latent(), plan);
  } else {
    shape.kv_width = plan.kv_heads.size() * config.head_dim;
  }
  return shape;
}

absl::Status CheckBackend(const ModelConfig& config, Backend& backend) {
  if (config.latent() == nullptr || backend.latents() != nullptr) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("latent attention is not computed by ",
                                               std::string(backend.name()),
                                               "; accepted for this model: --device cpu"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardModel>> ShardModel::Load(const ModelConfig& config,
                                                             const ShardPlan& plan,
                                                             const WeightSource& source,
                                                             const ShardModelOptions& options,
                                                             Backend& backend) {
  absl::Status status = CheckOptions(options);
  status.Update(CheckBackend(config, backend));
  if (!status.ok()) return status;
  const auto format = source.Resolve(options.weights);
  if (!format.ok()) return format.status();
  const KvPoolSpec pool = KvSpec(config, plan, options.block_size, options.kv_dtype);
  const KvDemand kv{.bytes = options.kv_cache_bytes,
                    .block_size = options.block_size,
                    .bytes_per_block = BytesPerBlock(pool)};
  const bool device_memory = backend.memory().has_value();
  // How many a device has room for is known once everything else is in it.
  const auto blocks = device_memory ? 1 : BlocksWithin(kv);
  if (!blocks.ok()) return blocks.status();
  auto arena =
      StepArena::Create(ShapeOfStep(config, plan, options.max_step_rows, backend), backend);
  if (!arena.ok()) return arena.status();
  std::unique_ptr<RankGroup> ranks;
  if (plan.placement.num_ranks > 1) {
    auto group = backend.NewRankGroup({.num_ranks = plan.placement.num_ranks,
                                       .max_rows = backend.BucketRows(options.max_step_rows),
                                       .width = config.hidden_size});
    if (!group.ok()) return group.status();
    ranks = *std::move(group);
  }
  const StepLimits limits{.max_rows = options.max_step_rows,
                          .max_positions = config.max_positions,
                          .block_size = options.block_size,
                          .num_blocks = *blocks};
  std::unique_ptr<ShardModel> model(
      new ShardModel(config, plan, limits, options, backend, *std::move(arena), std::move(ranks)));
  // The host's is reserved, not taken: what can't be had is said before anything is loaded.
  if (!device_memory) status.Update(model->ReserveKv(pool));
  if (status.ok()) status.Update(model->LoadRotations(limits));
  const MatrixFormat wanted(*format, options.weights.activations());
  if (status.ok()) status.Update(model->LoadLayers(source, wanted));
  if (device_memory && status.ok()) status.Update(model->ReserveKvOnDevice(pool, kv, options));
  if (!status.ok()) return status;
  return model;
}

ShardModel::ShardModel(const ModelConfig& config, const ShardPlan& plan, const StepLimits& limits,
                       const ShardModelOptions& options, Backend& backend, StepArena arena,
                       std::unique_ptr<RankGroup> ranks)
    : config_(config),
      plan_(plan),
      limits_(limits),
      step_timeout_(options.step_timeout),
      backend_(backend),
      arena_(std::move(arena)),
      ranks_(std::move(ranks)) {
  segments_.reserve(limits.max_rows);
  positions_.reserve(limits.max_rows);
}

absl::Status ShardModel::ReserveKvOnDevice(const KvPoolSpec& pool, const KvDemand& demand,
                                           const ShardModelOptions& options) {
  size_t rotations = 0;
  for (const Rotations& each : rotations_) rotations += each.size_bytes();
  const auto blocks =
      BlocksOnDevice(demand, {.memory = *backend_.memory(),
                              .held = weight_bytes() + arena_.size_bytes() + rotations,
                              .share = options.device_share});
  if (!blocks.ok()) return blocks.status();
  limits_.num_blocks = *blocks;
  return ReserveKv(pool);
}

absl::Status ShardModel::ReserveKv(KvPoolSpec spec) {
  spec.num_blocks = limits_.num_blocks;
  auto pool = backend_.NewKvPool(spec);
  if (!pool.ok()) return pool.status();
  kv_pool_ = *std::move(pool);
  backend_.ReserveForAttention(*kv_pool_, limits_.max_rows);
  kv_dtype_ = spec.dtype;
  return absl::OkStatus();
}

absl::Status ShardModel::LoadRotations(const StepLimits& limits) {
  rotations_.reserve(config_.ropes.size());
  for (const RopeConfig& rope : config_.ropes) {
    absl::StatusOr<Rotations> rotations = Rotations::Load(rope, limits, backend_);
    if (!rotations.ok()) return rotations.status();
    rotations_.push_back(*std::move(rotations));
  }
  step_rotations_.resize(rotations_.size());
  return absl::OkStatus();
}

absl::Status ShardModel::LoadLayers(const WeightSource& source, const MatrixFormat& wanted) {
  wanted_ = wanted;
  for (int64_t layer = plan_.layers.begin; layer < plan_.layers.end; ++layer) {
    auto weights =
        LoadLayerWeights(config_, plan_, source, static_cast<int>(layer), wanted, backend_);
    if (!weights.ok()) return weights.status();
    for (const PackedMatrix* matrix : weights->matrices()) {
      backend_.ReserveForGemm(*matrix, limits_.max_rows);
    }
    if (weights->attention.latent != nullptr) {
      const LatentWeights& latent = *weights->attention.latent;
      backend_.latents()->ReserveForGemmOfHeads(latent.key_maps.all(), limits_.max_rows);
      backend_.latents()->ReserveForGemmOfHeads(latent.value_maps.all(), limits_.max_rows);
    }
    layers_.push_back(*std::move(weights));
  }
  return absl::OkStatus();
}

std::string ShardModel::arithmetic() const {
  return absl::StrCat(std::string(backend_.name()), ", weights ",
                      std::string(Name(wanted_.weights)),
                      wanted_.activations == ActivationFormat::kFp8 ? ", their inputs FP8" : "",
                      ", keys and values ", std::string(Name(kv_dtype_)));
}

size_t ShardModel::weight_bytes() const {
  return std::accumulate(
      layers_.begin(), layers_.end(), size_t{0},
      [](size_t bytes, const LayerWeights& layer) { return bytes + layer.size_bytes(); });
}

absl::Status ShardModel::Check(absl::Span<const ShardSegment> segments, int64_t rows) const {
  return CheckStep(segments, rows, limits_);
}

absl::Status ShardModel::CopyBlocks(absl::Span<const KvBlockCopy> copies) {
  if (copies.empty()) return absl::OkStatus();
  if (absl::Status checked = CheckCopies(copies, limits_.num_blocks); !checked.ok()) {
    return checked;
  }
  backend_.CopyBlocks(copies, *kv_pool_);
  return absl::OkStatus();
}

absl::Status ShardModel::Join(Communicator* communicator, Deadline deadline) {
  return ranks_ == nullptr ? absl::OkStatus() : ranks_->Join(communicator, deadline);
}

absl::Status ShardModel::Forward(absl::Span<const ShardSegment> segments, MatrixView hidden) {
  if (absl::Status checked = Check(segments, hidden.rows); !checked.ok()) return checked;
  SLUICE_CHECK(hidden.cols == config_.hidden_size && hidden.dtype == DType::kF32);
  if (hidden.rows == 0) return absl::OkStatus();
  // Computed with the bucket's rows: rows beyond the step are padding; their contents are
  // unspecified.
  const int64_t rows = backend_.BucketRows(hidden.rows);
  Step step{arena_.Views(rows), hidden};
  step.hidden.rows = rows;
  PlaceSegments(segments);
  backend_.BeginStep(segments_, rows);
  const bool own_rotations = PlaceRotations(segments);
  if (ranks_ != nullptr) ranks_->BeginStep(Deadline::After(step_timeout_));
  const absl::Status enqueued =
      backend_.RunStep({.rows = rows, .memory = hidden.data, .variant = own_rotations ? 1 : 0},
                       [&] { return RunLayers(step); });
  // What hangs in here, the process's watch over its own progress ends.
  const absl::Status done = backend_.Synchronize(Deadline::Never());
  // Waits between steps must not fail for the deadline of this one.
  if (ranks_ != nullptr) ranks_->BeginStep(Deadline::Never());
  return enqueued.ok() ? done : enqueued;
}

absl::Status ShardModel::RunLayers(const Step& step) {
  Norm(layers_[0].attention_norm, step.hidden, step.views.normed);
  for (size_t index = 0; index < layers_.size(); ++index) {
    const LayerWeights& layer = layers_[index];
    const bool is_last = index + 1 == layers_.size();
    const NormWeights* const next = is_last ? nullptr : &layers_[index + 1].attention_norm;
    if (absl::Status sent = Attend(layer, static_cast<int>(index), step); !sent.ok()) return sent;
    if (absl::Status sent = Mlp(layer.mlp, next, step); !sent.ok()) return sent;
  }
  return absl::OkStatus();
}

void ShardModel::PlaceSegments(absl::Span<const ShardSegment> segments) {
  segments_.clear();
  positions_.clear();
  for (const ShardSegment& segment : segments) {
    segments_.push_back({.first_row = static_cast<int64_t>(positions_.size()),
                         .num_rows = segment.num_positions,
                         .first_position = segment.first_position,
                         .block_table = segment.block_table});
    for (int32_t i = 0; i < segment.num_positions; ++i) {
      positions_.push_back(segment.first_position + i);
    }
  }
}

bool ShardModel::PlaceRotations(absl::Span<const ShardSegment> segments) {
  const bool own = !std::all_of(rotations_.begin(), rotations_.end(),
                                [&](const Rotations& each) { return each.HasAnglesOf(segments); });
  for (size_t i = 0; i < rotations_.size(); ++i) {
    step_rotations_[i] =
        own ? rotations_[i].ForStep(segments, positions_) : rotations_[i].first_positions();
  }
  return own;
}

RowNorm ShardModel::NormOf(const NormWeights& norm) const {
  return {.weight = norm.weight.data(),
          .bias = norm.bias.empty() ? nullptr : norm.bias.data(),
          .eps = config_.norm_eps,
          .centred = config_.norm != NormKind::kRmsNorm};
}

void ShardModel::Norm(const NormWeights& norm, MatrixView x, MatrixView out) {
  const RowNorm row = NormOf(norm);
  if (row.centred) {
    backend_.LayerNorm(x, row.weight, row.bias, row.eps, out);
  } else {
    backend_.RmsNorm(x, row.weight, row.eps, out);
  }
}

absl::Status ShardModel::Attend(const LayerWeights& layer, int index, const Step& step) {
  const AttentionWeights& attention = layer.attention;
  if (attention.latent != nullptr) {
    AttendToLatents(attention, index, step.views);
  } else {
    AttendByHead(attention, index, step.views);
  }
  // Before the residual stream changes, where the MLP reads the layer's input too.
  if (layer.parallel_residual) Norm(layer.mlp_norm, step.hidden, step.views.normed);
  const NormWeights* const next = layer.parallel_residual ? nullptr : &layer.mlp_norm;
  return AddProductToResidual(step.views.attended, *attention.o, attention.o_bias, next, step);
}

void ShardModel::AttendByHead(const AttentionWeights& attention, int index,
                              const StepViews& views) {
  const int64_t query_width = plan_.heads.size() * config_.head_dim;
  backend_.Gemm(views.normed, *attention.qkv, views.qkv,
                {.bias = attention.qkv_bias.data_or_null()});
  backend_.ApplyQkNormRopeAndStoreKv(views.qkv, TurnOf(attention), index, *kv_pool_);
  backend_.PagedAttention(views.qkv.Columns(0, query_width), *kv_pool_, index,
                          {.scale = attention.spec.scale, .window = attention.spec.window},
                          views.attended);
}

// One arithmetic for decode and prefill: docs/decisions/056-latent-attention-is-always-absorbed.md.
void ShardModel::AttendToLatents(const AttentionWeights& attention, int index,
                                 const StepViews& step) {
  const LatentSpec& spec = *attention.spec.latent;
  const LatentWeights& weights = *attention.latent;
  const LatentViews& views = step.latent;
  LatentOps& latents = *backend_.latents();
  if (spec.query_rank > 0) {
    backend_.Gemm(step.normed, *weights.q_in, views.q_latent,
                  {.bias = weights.q_in_bias.data_or_null()});
    backend_.RmsNorm(views.q_latent, weights.q_norm.data(), spec.norm_eps, views.q_latent_normed);
    backend_.Gemm(views.q_latent_normed, *weights.q_b, views.q);
  } else {
    backend_.Gemm(step.normed, *weights.q_in, views.q);
  }
  backend_.Gemm(step.normed, *weights.kv_a, views.kv, {.bias = weights.kv_a_bias.data_or_null()});
  latents.PrepareLatentAttention(views.q, views.kv, LatentParamsOf(attention), index, *kv_pool_,
                                 views.absorbed);
  latents.GemmOfHeads({views.q, spec.query_dim()}, weights.key_maps.all(),
                      {views.absorbed, spec.stored_dim()});
  backend_.PagedAttention(views.absorbed, *kv_pool_, index,
                          {.scale = attention.spec.scale, .window = attention.spec.window},
                          views.mixed);
  latents.GemmOfHeads({views.mixed, spec.rank}, weights.value_maps.all(),
                      {step.attended, spec.value_dim});
}

LatentParams ShardModel::LatentParamsOf(const AttentionWeights& attention) const {
  const LatentSpec& spec = *attention.spec.latent;
  const int rope = *attention.spec.rope;
  return {.num_heads = static_cast<int>(plan_.heads.size()),
          .nope_dim = spec.nope_dim,
          .rope_dim = spec.rope_dim,
          .latent_dim = spec.rank,
          .latent_norm = attention.latent->kv_norm.data(),
          .norm_eps = spec.norm_eps,
          .rotations = &step_rotations_[rope],
          .layout = rotations_[rope].layout()};
}

// QK-norm, which takes a head by itself and thus needs no other rank, and rotation.
QkNormRopeParams ShardModel::TurnOf(const AttentionWeights& attention) const {
  const AttentionSpec& spec = attention.spec;
  QkNormRopeParams turn{.num_heads = static_cast<int>(plan_.heads.size()),
                        .num_kv_heads = static_cast<int>(plan_.kv_heads.size()),
                        .head_dim = config_.head_dim,
                        .query_norm = spec.qk_norm ? attention.q_norm.data() : nullptr,
                        .key_norm = spec.qk_norm ? attention.k_norm.data() : nullptr,
                        .norm_eps = config_.norm_eps};
  if (spec.rope.has_value()) {
    turn.rotations = &step_rotations_[*spec.rope];
    turn.layout = rotations_[*spec.rope].layout();
  }
  return turn;
}

absl::Status ShardModel::Mlp(const MlpWeights& mlp, const NormWeights* next, const Step& step) {
  return std::visit([&](const auto& kind) { return RunMlp(kind, next, step); }, mlp);
}

absl::Status ShardModel::RunMlp(const DenseMlpWeights& mlp, const NormWeights* next,
                                const Step& step) {
  const int64_t width = plan_.MlpOf(mlp.spec.width).columns.size();
  const MatrixView activated = step.views.activated.Columns(0, width);
  backend_.Gemm(step.views.normed, *mlp.gate_up, activated,
                {.bias = mlp.gate_up_bias.data_or_null(), .activation = mlp.spec.activation});
  return AddProductToResidual(activated, *mlp.down, mlp.down_bias, next, step);
}

absl::Status ShardModel::AddProductToResidual(MatrixView x, const PackedMatrix& weights,
                                              const FloatVector& bias, const NormWeights* next,
                                              const Step& step) {
  if (ranks_ == nullptr) {
    backend_.Gemm(x, weights, step.hidden, {.bias = bias.data_or_null(), .add_to_out = true});
    if (next != nullptr) Norm(*next, step.hidden, step.views.normed);
    return absl::OkStatus();
  }
  backend_.Gemm(x, weights, step.views.partial);
  ResidualUpdate update{.residual = step.hidden, .bias = bias.data_or_null()};
  if (next != nullptr) {
    update.norm = NormOf(*next);
    update.normed = step.views.normed;
  }
  return ranks_->SumToResidual(step.views.partial, update);
}

}  // namespace sluice
