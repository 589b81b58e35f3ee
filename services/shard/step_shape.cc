#include "services/shard/step_shape.h"

#include <algorithm>
#include <variant>

namespace sluice {
namespace {

// Makes room for an MLP of a layer.
void Widen(const NoMlpSpec&, const ShardPlan&, StepShape&) {}
void Widen(const DenseMlpSpec& mlp, const ShardPlan& plan, StepShape& shape) {
  shape.mlp_width = std::max(shape.mlp_width, plan.MlpOf(mlp.width).columns.size());
}
void Widen(const MixtureSpec& mlp, const ShardPlan& plan, StepShape& shape) {
  const int64_t width = plan.MlpOf(mlp, mlp.expert.width).columns.size();
  shape.num_experts = std::max(shape.num_experts, mlp.router.num_experts);
  shape.num_chosen = std::max(shape.num_chosen, mlp.router.num_chosen);
  shape.expert_width = std::max(shape.expert_width, mlp.router.num_chosen * width);
  shape.shared_width =
      std::max(shape.shared_width, plan.MlpOf(mlp, mlp.shared_width).columns.size());
  if (!mlp.beside.has_value()) return;
  Widen(*mlp.beside, plan, shape);
  shape.has_two_branches = true;
}

// Makes room for the heads of a layer.
void WidenByHeads(int layer, const ModelConfig& config, const ShardPlan& plan, StepShape& shape) {
  const int64_t heads = plan.heads.size(), head_dim = config.head_dim_of(layer);
  shape.query_width = std::max(shape.query_width, heads * head_dim);
  shape.value_width = std::max(shape.value_width, heads * config.value_dim(layer));
  if (config.latent() != nullptr) return;
  const int64_t kv_heads = KvHeadsOf(layer, config, plan).size();
  shape.kv_width = std::max(shape.kv_width, kv_heads * head_dim);
}

// Whether something is done to what a layer's branches add.
bool ChangesBranches(const LayerSpec& layer) {
  const bool norms_branch = layer.norms.after_attention || layer.norms.after_mlp;
  return (norms_branch && !layer.norms.of_sum) || layer.residual_multiplier != 1 ||
         layer.side.has_value();
}

LatentStepShape LatentShapeOfStep(const LatentSpec& latent, const ShardPlan& plan) {
  return {.query_rank = latent.query_rank,
          .stored_dim = latent.stored_dim(),
          .absorbed_width = plan.heads.size() * latent.stored_dim(),
          .mixed_width = plan.heads.size() * latent.rank};
}

}  // namespace

bool NormsWholeQk(const AttentionSpec& attention) {
  if (!attention.has_keys()) return false;
  return attention.qk_norm && attention.qk_norm_kind == QkNormKind::kWholeRms;
}

bool NormsOverRanks(const AttentionSpec& attention) {
  if (!attention.recurrent.has_value()) return NormsWholeQk(attention);
  return attention.recurrent->kind == RecurrenceKind::kStateSpace &&
         attention.recurrent->norm_groups == 1;
}

StepShape ShapeOfStep(const ModelConfig& config, const ShardPlan& plan, int64_t max_rows,
                      const Backend& backend) {
  const auto any_layer = [&](auto has) {
    return std::any_of(config.layers.begin(), config.layers.end(), has);
  };
  StepShape shape{
      .max_rows = backend.BucketRows(max_rows),
      .hidden = config.hidden_size,
      .side_width = config.side_width(),
      .num_ranks = plan.placement.num_ranks,
      .has_branch = any_layer(ChangesBranches),
      .has_squares =
          any_layer([](const LayerSpec& layer) { return NormsOverRanks(layer.attention); }),
      .has_query_factors =
          any_layer([](const LayerSpec& layer) { return layer.attention.growth.has_value(); }),
      .has_sources = config.source.has_value(),
      .operand_dtype = backend.operand_dtype()};
  for (int64_t layer = plan.layers.begin; layer < plan.layers.end; ++layer) {
    WidenByHeads(static_cast<int>(layer), config, plan, shape);
    std::visit([&](const auto& mlp) { Widen(mlp, plan, shape); }, config.layers[layer].mlp);
  }
  if (config.latent() != nullptr) shape.latent = LatentShapeOfStep(*config.latent(), plan);
  if (const RecurrentSpec* recurrent = config.recurrent(); recurrent != nullptr) {
    const int64_t keys = plan.recurrent_key_heads.size() * recurrent->key_dim;
    const int64_t values = plan.recurrent_heads.size() * recurrent->value_dim;
    shape.recurrent = {
        .channels = 2 * keys + values, .values = values, .heads = plan.recurrent_heads.size()};
  }
  if (any_layer([](const LayerSpec& layer) { return layer.attention.output_gate; })) {
    shape.gate_width = shape.query_width;
  }
  return shape;
}

}  // namespace sluice
