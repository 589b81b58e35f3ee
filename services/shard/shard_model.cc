#include "services/shard/shard_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/check.h"
#include "kernels/cross_attention_ops.h"
#include "kernels/open_attention_ops.h"
#include "services/model/device_check.h"
#include "services/shard/step_shape.h"

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

// Of the rank's layers with states, without a number of slots.
StatePoolSpec StateSpecOf(const ModelConfig& config, const ShardPlan& plan) {
  const RecurrentSpec* const recurrent = config.recurrent();
  if (recurrent == nullptr) return {};
  return {.num_layers = config.NumRecurrentLayers(plan.layers.begin, plan.layers.end),
          .num_heads = static_cast<int>(plan.recurrent_heads.size()),
          .num_key_heads = static_cast<int>(plan.recurrent_key_heads.size()),
          .key_dim = recurrent->key_dim,
          .value_dim = recurrent->value_dim,
          .conv_width = recurrent->conv_width};
}

uint64_t BytesPerSlot(const StatePoolSpec& spec) {
  return spec.num_layers == 0 ? 0 : spec.num_layers * spec.bytes_per_slot();
}

// What blocks take of the budget. Those of a stage whose layers are MLPs alone take nothing, and there
// are not more of them than books can be kept of.
uint64_t BytesPerBlock(const KvLayout& layout) {
  constexpr uint64_t kOfNone = 1024;
  const uint64_t bytes = layout.bytes_per_block();
  return bytes == 0 ? kOfNone : bytes;
}

absl::Status CheckBackend(const ModelConfig& config, Backend& backend) {
  const bool has_recurrent =
      backend.recurrence() != nullptr && backend.operand_dtype() == DType::kF32;
  const bool needs_recurrent =
      config.recurrent() != nullptr ||
      std::any_of(config.layers.begin(), config.layers.end(),
                  [](const LayerSpec& layer) { return layer.attention.output_gate; });
  if (needs_recurrent && !has_recurrent) {
    return absl::UnimplementedError(
        absl::StrCat("layers with states in place of keys and values, "
                     "and gates of attention, are not computed by ",
                     std::string(backend.name()), "; accepted for this model: --device cpu"));
  }
  if (config.source.has_value() &&
      (backend.cross_attention() == nullptr || backend.open_attention() == nullptr)) {
    return absl::UnimplementedError(
        absl::StrCat("attention to a source is not computed by ", std::string(backend.name()),
                     "; accepted for model_type \"", config.model_type, "\": --device cpu"));
  }
  if (config.latent() == nullptr || backend.latents() != nullptr) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("latent attention is not computed by ",
                                               std::string(backend.name()),
                                               "; accepted for this model: --device cpu"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardModel>> ShardModel::Load(const ModelConfig& config,
                                                             const ShardPlan& plan,
                                                             const WeightSource& source,
                                                             const ShardModelOptions& asked,
                                                             Backend& backend) {
  ShardModelOptions options = asked;
  // A block belongs to one boundary of the recurrence.
  if (config.recurrent() != nullptr) options.block_size = StatePoolSpec::kRun;
  absl::Status status = CheckOptions(options);
  if (status.ok() && backend.experts() == nullptr) status = CheckGpuComputes(config);
  status.Update(CheckBackend(config, backend));
  if (!status.ok()) return status;
  if (config.source.has_value() && SourceSpec::kUnit % options.block_size != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("block_size is ", options.block_size, "; accepted for model_type \"",
                     config.model_type, "\": divisors of ", SourceSpec::kUnit));
  }
  if (config.is_encoder() && backend.open_attention() == nullptr) {
    return absl::UnimplementedError(absl::StrCat("model_type \"", config.model_type,
                                                 "\" sees later positions, which backend ",
                                                 std::string(backend.name()), " does not compute"));
  }
  const auto format = source.Resolve(options.weights);
  if (!format.ok()) return format.status();
  const KvLayout layout = KvLayoutOf(config, plan, options.block_size, options.kv_dtype);
  const KvDemand kv{.bytes = options.kv_cache_bytes,
                    .block_size = options.block_size,
                    .bytes_per_block = BytesPerBlock(layout),
                    .bytes_per_slot = BytesPerSlot(StateSpecOf(config, plan)),
                    .num_state_slots = options.num_state_slots};
  const bool device_memory = backend.memory().has_value();
  // How many a device has room for is known once everything else is in it.
  absl::StatusOr<KvCounts> counts = KvCounts{.num_blocks = 1};
  if (options.num_kv_blocks > 0) {
    const bool has_states = StateSpecOf(config, plan).num_layers > 0;
    counts = KvCounts{.num_blocks = options.num_kv_blocks,
                      .num_state_slots = has_states ? options.num_kv_blocks : 0};
  } else if (!device_memory) {
    counts = CountsWithin(kv);
  }
  if (!counts.ok()) return counts.status();
  auto arena =
      StepArena::Create(ShapeOfStep(config, plan, options.max_step_rows, backend), backend);
  if (!arena.ok()) return arena.status();
  const StepLimits limits{.max_rows = options.max_step_rows,
                          .max_positions = config.max_positions,
                          .block_size = options.block_size,
                          .num_blocks = counts->num_blocks,
                          .num_state_slots = counts->num_state_slots};
  std::unique_ptr<ShardModel> model(
      new ShardModel(config, plan, limits, options, backend, *std::move(arena)));
  const bool has_adapters = backend.adapters() != nullptr && !config.source.has_value();
  auto adapters = StepAdapters::Create(config, plan, backend.BucketRows(options.max_step_rows),
                                       has_adapters ? options.max_adapter_rank : 0, backend);
  if (!adapters.ok()) return adapters.status();
  model->adapters_ = *std::move(adapters);
  status = model->MakeRankGroups();
  // The host's is reserved, not taken: what can't be had is said before anything is loaded.
  if (!device_memory && status.ok()) status.Update(model->ReserveKv(layout));
  if (status.ok()) status.Update(model->LoadRotations(limits));
  const MatrixFormat wanted(*format, options.weights.activations());
  if (status.ok()) status.Update(model->LoadLayers(source, wanted));
  if (device_memory && status.ok()) status.Update(model->ReserveKvOnDevice(layout, kv, options));
  if (!status.ok()) return status;
  return model;
}

ShardModel::ShardModel(const ModelConfig& config, const ShardPlan& plan, const StepLimits& limits,
                       const ShardModelOptions& options, Backend& backend, StepArena arena)
    : config_(config),
      plan_(plan),
      limits_(limits),
      step_timeout_(options.step_timeout),
      on_layer_(options.on_layer),
      backend_(backend),
      arena_(std::move(arena)) {
  segments_.reserve(limits.max_rows);
  positions_.reserve(limits.max_rows);
  query_factors_.reserve(limits.max_rows);
  kv_dtype_ = options.kv_dtype;
  for (int64_t layer = plan.layers.begin; layer < plan.layers.end; ++layer) {
    const bool has_state = config.layers[layer].attention.recurrent.has_value();
    pool_layers_.push_back(has_state ? config.NumRecurrentLayers(plan.layers.begin, layer)
                                     : config.NumAttentionLayers(plan.layers.begin, layer));
  }
}

absl::Status ShardModel::MakeRankGroups() {
  if (plan_.placement.num_ranks == 1) return absl::OkStatus();
  const auto make = [&](int64_t width, std::unique_ptr<RankGroup>& group) {
    auto made = backend_.NewRankGroup({.num_ranks = plan_.placement.num_ranks,
                                       .max_rows = backend_.BucketRows(limits_.max_rows),
                                       .width = width});
    if (made.ok()) group = *std::move(made);
    return made.status();
  };
  absl::Status status = make(config_.hidden_size, ranks_);
  const bool sums_squares =
      std::any_of(config_.layers.begin(), config_.layers.end(),
                  [](const LayerSpec& layer) { return NormsOverRanks(layer.attention); });
  if (status.ok() && sums_squares) status = make(2, square_ranks_);
  return status;
}

absl::Status ShardModel::ReserveKvOnDevice(const KvLayout& layout, const KvDemand& demand,
                                           const ShardModelOptions& options) {
  size_t rotations = 0;
  for (const Rotations& each : rotations_) rotations += each.size_bytes();
  const auto blocks =
      BlocksOnDevice(demand, {.memory = *backend_.memory(),
                              .held = weight_bytes() + arena_.size_bytes() + rotations,
                              .share = options.device_share});
  if (!blocks.ok()) return blocks.status();
  limits_.num_blocks = *blocks;
  return ReserveKv(layout);
}

absl::Status ShardModel::ReserveKv(const KvLayout& layout) {
  kv_slots_ = layout.slots;
  for (KvPoolSpec spec : layout.pools) {
    spec.num_blocks = limits_.num_blocks;
    auto pool = backend_.NewKvPool(spec);
    if (!pool.ok()) return pool.status();
    kv_pools_.push_back(*std::move(pool));
    backend_.ReserveForAttention(*kv_pools_.back(), limits_.max_rows);
    kv_dtype_ = spec.dtype;
  }
  StatePoolSpec states = StateSpecOf(config_, plan_);
  if (states.num_layers == 0) return absl::OkStatus();
  states.num_slots = limits_.num_state_slots;
  auto state_pool = backend_.recurrence()->NewStatePool(states);
  if (state_pool.ok()) state_pool_ = *std::move(state_pool);
  return state_pool.status();
}

size_t ShardModel::kv_bytes() const {
  const size_t states = state_pool_ == nullptr ? 0 : state_pool_->size_bytes();
  return std::accumulate(kv_pools_.begin(), kv_pools_.end(), states,
                         [](size_t bytes, const auto& pool) { return bytes + pool->size_bytes(); });
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
    if (const auto* mixture = std::get_if<MixtureWeights>(&weights->mlp)) {
      backend_.experts()->ReserveForExperts(*mixture->gate_up, *mixture->down,
                                            mixture->shared_down.get(),
                                            mixture->spec.router.num_chosen, limits_.max_rows);
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
  absl::Status checked = CheckStep(segments, rows, limits_);
  if (!checked.ok() || !config_.source.has_value()) return checked;
  return CheckTexts(segments, config_.source->max_positions, limits_.block_size);
}

absl::Status ShardModel::CopyBlocks(absl::Span<const KvBlockCopy> copies) {
  if (copies.empty()) return absl::OkStatus();
  if (absl::Status checked = CheckCopies(copies, limits_.num_blocks); !checked.ok()) {
    return checked;
  }
  for (const auto& pool : kv_pools_) backend_.CopyBlocks(copies, *pool);
  return absl::OkStatus();
}

absl::Status ShardModel::CopyStates(absl::Span<const KvBlockCopy> copies) {
  if (copies.empty() || state_pool_ == nullptr) return absl::OkStatus();
  if (absl::Status checked = CheckStateCopies(copies, limits_.num_state_slots); !checked.ok()) {
    return checked;
  }
  backend_.recurrence()->CopyStates(copies, *state_pool_);
  return absl::OkStatus();
}

absl::Status ShardModel::Join(Communicator* communicator, Deadline deadline) {
  if (ranks_ == nullptr) return absl::OkStatus();
  const absl::Status joined = ranks_->Join(communicator, deadline);
  if (!joined.ok()) return joined;
  if (absl::Status met = adapters_->Join(communicator, deadline); !met.ok()) return met;
  return square_ranks_ == nullptr ? absl::OkStatus() : square_ranks_->Join(communicator, deadline);
}

absl::Status ShardModel::LoadAdapter(int slot, const AdapterSource& source) {
  if (source.max_rank() > adapters_->max_rank()) {
    return absl::InvalidArgumentError(absl::StrCat(
        source.folder(), ": the adapter has rank ", source.max_rank(),
        adapters_->max_rank() == 0 ? "; this process serves no adapters"
                                   : absl::StrCat("; accepted: at most ", adapters_->max_rank())));
  }
  auto weights = AdapterWeights::Load(config_, plan_, source, backend_);
  return weights.ok() ? adapters_->Set(slot, *std::move(weights)) : weights.status();
}

void ShardModel::DropAdapter(int slot) {
  if (adapters_->Has(slot)) (void)adapters_->Set(slot, nullptr);
}

absl::Status ShardModel::Forward(absl::Span<const ShardSegment> segments, MatrixView hidden) {
  if (absl::Status checked = Check(segments, hidden.rows); !checked.ok()) return checked;
  SLUICE_CHECK(hidden.cols == config_.row_width() && hidden.dtype == DType::kF32);
  if (hidden.rows == 0) return absl::OkStatus();
  // Computed with the bucket's rows: rows beyond the step are padding; their contents are
  // unspecified.
  const int64_t rows = backend_.BucketRows(hidden.rows);
  hidden.rows = rows;
  Step step{.views = arena_.Views(rows), .hidden = hidden.Columns(0, config_.hidden_size)};
  step.sides = hidden.Columns(config_.hidden_size, hidden.cols - config_.hidden_size);
  const absl::Status adapted = adapters_->Begin(segments, Deadline::After(step_timeout_));
  if (!adapted.ok()) return adapted;
  if (!config_.source.has_value()) {
    PlaceSegments(segments);
    backend_.BeginStep(segments_, rows);
  }
  if (state_pool_ != nullptr) PlaceStates(segments);
  const bool own_rotations = PlaceRotations(segments);
  PlaceQueryFactors(step.views.query_factors);
  for (RankGroup* ranks : {ranks_.get(), square_ranks_.get()}) {
    if (ranks != nullptr) ranks->BeginStep(Deadline::After(step_timeout_));
  }
  const absl::Status enqueued = backend_.RunStep(
      {.rows = rows, .memory = hidden.data, .variant = own_rotations ? 1 : 0}, [&] {
        return config_.source.has_value() ? RunPasses(segments, step.hidden) : RunLayers(step);
      });
  // What hangs in here, the process's watch over its own progress ends.
  const absl::Status done = backend_.Synchronize(Deadline::Never());
  adapters_->End();
  // Waits between steps must not fail for the deadline of this one.
  for (RankGroup* ranks : {ranks_.get(), square_ranks_.get()}) {
    if (ranks != nullptr) ranks->BeginStep(Deadline::Never());
  }
  return enqueued.ok() ? done : enqueued;
}

absl::Status ShardModel::RunLayers(const Step& of_all) {
  Step step = of_all;
  bool is_first = true;
  for (size_t index = 0; index < layers_.size(); ++index) {
    const LayerWeights& layer = layers_[index];
    step.layer = static_cast<int>(plan_.layers.begin + index);
    const LayerUse use = UseOf(layer, step);
    if (use == LayerUse::kSkip) continue;
    if (use == LayerUse::kStoreSource) {
      absl::Status stored = StoreSource(layer, static_cast<int>(index), step);
      if (!stored.ok()) return stored;
      continue;
    }
    if (const NormWeights* norm = layer.first_norm(); is_first && norm != nullptr) {
      Norm(*norm, step.hidden, step.views.normed);
    }
    is_first = false;
    absl::Status ran = RunLayer(layer, static_cast<int>(index), NextNorm(index, step), step);
    if (!ran.ok()) return ran;
    if (on_layer_) on_layer_(static_cast<int>(plan_.layers.begin + index), step.hidden);
  }
  return absl::OkStatus();
}

const NormWeights* ShardModel::NextNorm(size_t index, const Step& step) {
  if (index + 1 == layers_.size()) return nullptr;
  const LayerWeights& next = layers_[index + 1];
  return UseOf(next, step) == LayerUse::kRun ? next.first_norm() : nullptr;
}

absl::Status ShardModel::RunLayer(const LayerWeights& layer, int index, const NormWeights* next,
                                  const Step& step) {
  absl::Status sent;
  if (!layer.attention.spec.absent) {
    sent = Attend(layer, index, next, WithInput(layer.norms.before_attention, step));
  }
  if (sent.ok() && layer.cross != nullptr) {
    sent = AttendToSource(layer, index, WithInput(layer.norms.before_attention, step));
  }
  if (!sent.ok()) return sent;
  BranchEnd end{.post = layer.norms.after_mlp ? &layer.mlp_post_norm : nullptr,
                .post_is_of_sum = layer.norms.of_sum,
                .multiplier = layer.residual_multiplier};
  const bool ends_with_mlp =
      layer.side_gate == nullptr && layer.output_factor == 1 && !layer.norms.leaving;
  if (ends_with_mlp) end.next = next;
  sent = Mlp(layer.mlp, end, WithInput(layer.norms.before_mlp || layer.parallel_residual, step));
  if (!sent.ok()) return sent;
  if (layer.side_gate != nullptr) {
    if (sent = AddSide(layer, index, step); !sent.ok()) return sent;
  }
  if (layer.output_factor != 1) backend_.Scale(layer.output_factor, step.hidden);
  if (layer.norms.leaving) Norm(layer.leaving_norm, step.hidden, step.hidden);
  if (!ends_with_mlp && next != nullptr) Norm(*next, step.hidden, step.views.normed);
  return absl::OkStatus();
}

absl::Status ShardModel::AddSide(const LayerWeights& layer, int index, const Step& step) {
  const StepViews& views = step.views;
  const int64_t width = layer.side_gate->num_outputs();
  const MatrixView own = step.sides.Columns((plan_.layers.begin + index) * width, width);
  backend_.TreeAdd({&own, 1}, views.side_input);
  absl::Status made = Multiply(step.hidden, *layer.side_gate, TensorRole::kSideGate,
                               views.side_gate, {.activation = layer.side_activation}, step);
  if (!made.ok()) return made;
  // Element by element: rows of one element each.
  const MatrixView elements{views.side_gate.data, DType::kF32, views.side_gate.rows * width, 1, 1};
  backend_.ScaleRows(static_cast<const float*>(views.side_input.data), elements);
  made = Multiply(views.side_gate, *layer.side_out, TensorRole::kSideOut, views.branch, {}, step);
  if (!made.ok()) return made;
  Norm(layer.side_norm, views.branch, views.branch);
  backend_.AddResidual(views.branch, step.hidden);
  return absl::OkStatus();
}

ShardModel::Step ShardModel::WithInput(bool has_norm, const Step& step) {
  Step result = step;
  result.input = has_norm ? step.views.normed : step.hidden;
  return result;
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

void ShardModel::PlaceStates(absl::Span<const ShardSegment> segments) {
  state_segments_.clear();
  for (size_t i = 0; i < segments.size(); ++i) {
    const ShardSegment& segment = segments[i];
    const auto first = std::max(segment.first_position - 1, 0) / StatePoolSpec::kRun;
    const absl::Span<const int32_t> slots =
        segment.state_slots.empty() ? segment.block_table.subspan(static_cast<size_t>(first))
                                    : segment.state_slots;
    state_segments_.push_back({.first_row = segments_[i].first_row,
                               .num_rows = segment.num_positions,
                               .first_position = segment.first_position,
                               .slots = slots});
  }
  backend_.recurrence()->BeginStates(state_segments_);
}

void ShardModel::PlaceQueryFactors(MatrixView factors) {
  const auto layer =
      std::find_if(config_.layers.begin(), config_.layers.end(),
                   [](const LayerSpec& each) { return each.attention.growth.has_value(); });
  if (layer == config_.layers.end()) return;
  const QueryGrowth& growth = *layer->attention.growth;
  query_factors_.clear();
  for (const int32_t position : positions_) {
    const double units = std::floor(double{1} * (position + growth.offset) / growth.unit);
    query_factors_.push_back(static_cast<float>(1 + growth.beta * std::log1p(units)));
  }
  backend_.CopyIn({reinterpret_cast<const std::byte*>(query_factors_.data()),
                   query_factors_.size() * sizeof(float)},
                  factors.data);
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

absl::Status ShardModel::Mlp(const MlpWeights& mlp, const BranchEnd& end, const Step& step) {
  return std::visit([&](const auto& kind) { return RunMlp(kind, end, step); }, mlp);
}

absl::Status ShardModel::RunMlp(const DenseMlpWeights& mlp, const BranchEnd& end,
                                const Step& step) {
  const int64_t width = plan_.MlpOf(mlp.spec.width).columns.size();
  const MatrixView activated = step.views.activated.Columns(0, width);
  const TensorRole first = mlp.spec.gated ? TensorRole::kGate : TensorRole::kUp;
  const absl::Status made = Multiply(step.input, *mlp.gate_up, first, activated,
                                     {.bias = mlp.gate_up_bias.data_or_null(),
                                      .activation = mlp.spec.activation,
                                      .clamp = mlp.spec.clamp},
                                     step);
  if (!made.ok()) return made;
  if (mlp.spec.squared) backend_.recurrence()->Square(activated);
  return AddProductToResidual(activated, *mlp.down, TensorRole::kDown, mlp.down_bias, end, step);
}

absl::Status ShardModel::AddProductToResidual(MatrixView x, const PackedMatrix& weights,
                                              TensorRole role, const FloatVector& bias,
                                              const BranchEnd& end, const Step& step) {
  return WithProduct(x, weights, role, step, [&](LastProduct product, const AfterProduct* after) {
    return AddToResidual(product, after, bias.data_or_null(), end, step);
  });
}

absl::Status ShardModel::AddToResidual(LastProduct product, const AfterProduct* after,
                                       const float* bias, const BranchEnd& end, const Step& step) {
  if (end.post != nullptr && end.post_is_of_sum) {
    BranchEnd plain = end;
    plain.post = plain.next = nullptr;
    if (absl::Status sent = AddToResidual(product, after, bias, plain, step); !sent.ok()) {
      return sent;
    }
    Norm(*end.post, step.hidden, step.hidden);
    if (end.next != nullptr) Norm(*end.next, step.hidden, step.views.normed);
    return absl::OkStatus();
  }
  if (end.post != nullptr || end.multiplier != 1) {
    absl::Status sent = SumBranch(product, after, bias, step.views.branch, step);
    if (sent.ok()) EndBranch(end, step);
    return sent;
  }
  if (ranks_ == nullptr) {
    product(step.hidden, bias, /*add_to_out=*/true);
    if (after != nullptr) (*after)(step.hidden);
    if (end.next != nullptr) Norm(*end.next, step.hidden, step.views.normed);
    return absl::OkStatus();
  }
  product(step.views.partial, /*bias=*/nullptr, /*add_to_out=*/false);
  ResidualUpdate update{.residual = step.hidden, .bias = bias};
  if (end.next != nullptr && after == nullptr) {
    update.norm = NormOf(*end.next);
    update.normed = step.views.normed;
  }
  absl::Status sent = ranks_->SumToResidual(step.views.partial, update);
  if (!sent.ok() || after == nullptr) return sent;
  (*after)(step.hidden);
  if (end.next != nullptr) Norm(*end.next, step.hidden, step.views.normed);
  return absl::OkStatus();
}

void ShardModel::EndBranch(const BranchEnd& end, const Step& step) {
  const MatrixView branch = step.views.branch;
  if (end.post != nullptr) Norm(*end.post, branch, branch);
  if (end.multiplier != 1) backend_.Scale(end.multiplier, branch);
  backend_.AddResidual(branch, step.hidden);
  if (end.next != nullptr) Norm(*end.next, step.hidden, step.views.normed);
}

absl::Status ShardModel::SumBranch(LastProduct product, const AfterProduct* after,
                                   const float* bias, MatrixView branch, const Step& step) {
  if (ranks_ == nullptr) {
    product(branch, bias, /*add_to_out=*/false);
    if (after != nullptr) (*after)(branch);
    return absl::OkStatus();
  }
  product(step.views.partial, /*bias=*/nullptr, /*add_to_out=*/false);
  const MatrixView zeros = step.views.zeros.Columns(0, branch.cols);
  backend_.TreeAdd({&zeros, 1}, branch);
  absl::Status sent = ranks_->SumToResidual(step.views.partial, {.residual = branch, .bias = bias});
  if (sent.ok() && after != nullptr) (*after)(branch);
  return sent;
}

}  // namespace sluice
