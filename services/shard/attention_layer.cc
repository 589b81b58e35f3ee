// ShardModel's attention: by head, to latents, and the choice between these and states.
#include "kernels/cross_attention_ops.h"
#include "kernels/latent_ops.h"
#include "kernels/open_attention_ops.h"
#include "kernels/recurrent_ops.h"
#include "services/shard/shard_model.h"
#include "services/shard/step_shape.h"

namespace sluice {
namespace {

// How a rank sums the squares of its keys.
struct KeySquares {
  bool is_counted = true;  // another rank counts them where several hold one KV head
  int num_slices = 1;
};

// The slices of all ranks are equal runs of KV heads, as many as the model alone says.
KeySquares KeySquaresOf(const ModelConfig& config, const ShardPlan& plan) {
  const int ranks = plan.placement.num_ranks;
  if (ranks > config.num_kv_heads) {
    return {.is_counted = plan.placement.rank % (ranks / config.num_kv_heads) == 0};
  }
  return {.num_slices = NumReductionSlices(config.num_kv_heads) / ranks};
}

}  // namespace

absl::Status ShardModel::Attend(const LayerWeights& layer, int index, const NormWeights* next_layer,
                                const Step& step) {
  const AttentionWeights& attention = layer.attention;
  if (attention.recurrent != nullptr) {
    if (absl::Status sent = RunRecurrence(*attention.recurrent, index, step); !sent.ok()) {
      return sent;
    }
  } else if (attention.latent != nullptr) {
    if (absl::Status made = AttendToLatents(attention, index, step); !made.ok()) return made;
  } else if (absl::Status sent = AttendByHead(attention, index, step); !sent.ok()) {
    return sent;
  }
  BranchEnd end{.post = layer.norms.after_attention ? &layer.attention_post_norm : nullptr,
                .post_is_of_sum = layer.norms.of_sum,
                .multiplier = layer.residual_multiplier};
  if (layer.cross != nullptr) {
    if (layer.norms.before_attention) end.next = &layer.cross->norm;
  } else if (layer.norms.before_mlp && layer.parallel_residual) {
    // Before the residual stream changes, as the MLP reads the layer's input too.
    Norm(layer.mlp_norm, step.hidden, step.views.normed);
  } else if (layer.norms.before_mlp) {
    end.next = &layer.mlp_norm;
  } else if (!layer.has_mlp()) {
    end.next = next_layer;
  }
  if (attention.recurrent != nullptr) {
    return AddProductToResidual(step.views.recurrent.attended, *attention.recurrent->out,
                                TensorRole::kRecurrentOut, /*bias=*/{}, end, step);
  }
  const MatrixView attended = step.views.attended.Columns(0, attention.o->num_inputs());
  return AddProductToResidual(attended, *attention.o, TensorRole::kO, attention.o_bias, end, step);
}

absl::Status ShardModel::AttendByHead(const AttentionWeights& attention, int index,
                                      const Step& step) {
  const StepViews& views = step.views;
  const AttentionSpec& spec = attention.spec;
  const MatrixView qkv = views.qkv.Columns(0, attention.qkv->num_outputs());
  const MatrixView queries = qkv.Columns(0, plan_.heads.size() * attention.head_dim);
  absl::Status made = Multiply(step.input, *attention.qkv, TensorRole::kQ, qkv,
                               {.bias = attention.qkv_bias.data_or_null()}, step);
  if (!made.ok()) return made;
  if (spec.value_norm) NormValues(attention, qkv);
  if (NormsWholeQk(spec)) {
    if (absl::Status sent = NormWholeQk(attention, step); !sent.ok()) return sent;
  }
  KvPool& pool = *kv_pools_[kv_slots_[index].pool];
  const int slot = kv_slots_[index].layer;
  backend_.ApplyQkNormRopeAndStoreKv(qkv, TurnOf(attention), slot, pool);
  if (spec.growth.has_value()) {
    backend_.ScaleRows(static_cast<const float*>(views.query_factors.data), queries);
  }
  const AttentionOptions options{.scale = spec.scale,
                                 .window = spec.window,
                                 .chunk = spec.chunk,
                                 .sinks = attention.sinks.data_or_null(),
                                 .softcap = spec.softcap};
  const MatrixView attended = views.attended.Columns(0, queries.cols);
  if (!attention.distance_bias.empty()) {
    backend_.cross_attention()->BiasedAttention(
        queries, pool, slot, options,
        {.values = attention.distance_bias.data(), .reach = spec.relative->max_distance},
        spec.ahead, attended);
  } else if (spec.ahead > 0) {
    backend_.open_attention()->OpenAttention(queries, pool, slot, options, spec.ahead, attended);
  } else {
    backend_.PagedAttention(queries, pool, slot, options, attended);
  }
  if (attention.gate != nullptr) {
    made = Multiply(step.input, *attention.gate, TensorRole::kQGate, views.output_gate, {}, step);
    if (!made.ok()) return made;
    backend_.recurrence()->GateBySigmoid(views.output_gate, attended);
  }
  return absl::OkStatus();
}

void ShardModel::NormValues(const AttentionWeights& attention, MatrixView qkv) {
  const int64_t width = attention.num_kv_heads * attention.head_dim;
  for (int head = 0; head < attention.num_kv_heads; ++head) {
    const MatrixView values =
        qkv.Columns(qkv.cols - width + head * attention.head_dim, attention.head_dim);
    backend_.RmsNorm(values, attention.value_norm.data(), config_.norm_eps, values);
  }
}

// One arithmetic for decode and prefill: docs/decisions/056-latent-attention-is-always-absorbed.md.
absl::Status ShardModel::AttendToLatents(const AttentionWeights& attention, int index,
                                         const Step& step) {
  const LatentSpec& spec = *attention.spec.latent;
  const LatentWeights& weights = *attention.latent;
  const LatentViews& views = step.views.latent;
  LatentOps& latents = *backend_.latents();
  absl::Status made;
  if (spec.query_rank > 0) {
    made = Multiply(step.input, *weights.q_in, TensorRole::kQA, views.q_latent,
                    {.bias = weights.q_in_bias.data_or_null()}, step);
    if (!made.ok()) return made;
    backend_.RmsNorm(views.q_latent, weights.q_norm.data(), spec.norm_eps, views.q_latent_normed);
    made = Multiply(views.q_latent_normed, *weights.q_b, TensorRole::kQB, views.q, {}, step);
  } else {
    made = Multiply(step.input, *weights.q_in, TensorRole::kQ, views.q, {}, step);
  }
  if (!made.ok()) return made;
  made = Multiply(step.input, *weights.kv_a, TensorRole::kKvA, views.kv,
                  {.bias = weights.kv_a_bias.data_or_null()}, step);
  if (!made.ok()) return made;
  KvPool& pool = *kv_pools_[kv_slots_[index].pool];
  const int slot = kv_slots_[index].layer;
  latents.PrepareLatentAttention(views.q, views.kv, LatentParamsOf(attention), slot, pool,
                                 views.absorbed);
  latents.GemmOfHeads({views.q, spec.query_dim()}, weights.key_maps.all(),
                      {views.absorbed, spec.stored_dim()});
  AddToHeads({views.q, spec.query_dim()}, /*parity=*/0, spec.nope_dim,
             {views.absorbed, spec.stored_dim()}, spec.rank, step);
  backend_.PagedAttention(views.absorbed, pool, slot,
                          {.scale = attention.spec.scale, .window = attention.spec.window},
                          views.mixed);
  latents.GemmOfHeads({views.mixed, spec.rank}, weights.value_maps.all(),
                      {step.views.attended, spec.value_dim});
  AddToHeads({views.mixed, spec.rank}, /*parity=*/1, spec.rank,
             {step.views.attended, spec.value_dim}, spec.value_dim, step);
  return absl::OkStatus();
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

absl::Status ShardModel::NormWholeQk(const AttentionWeights& attention, const Step& step) {
  const int64_t query_width = plan_.heads.size() * config_.head_dim;
  const int64_t kv_width = plan_.kv_heads.size() * config_.head_dim;
  const MatrixView queries = step.views.qkv.Columns(0, query_width);
  const MatrixView keys = step.views.qkv.Columns(query_width, kv_width);
  // Of ranks that share a KV head, the first counts it.
  const KeySquares counted = KeySquaresOf(config_, plan_);
  MatrixView squares = step.views.squares;
  backend_.SumSquares(queries, static_cast<int>(plan_.o_proj.slices.size()), squares.Columns(0, 1));
  backend_.SumSquares(keys.Columns(0, counted.is_counted ? kv_width : 0), counted.num_slices,
                      squares.Columns(1, 1));
  if (square_ranks_ != nullptr) {
    const MatrixView zeros = step.views.zeros.Columns(0, 2);
    backend_.TreeAdd({&zeros, 1}, step.views.all_squares);
    const ResidualUpdate update{.residual = step.views.all_squares};
    if (absl::Status sent = square_ranks_->SumToResidual(squares, update); !sent.ok()) return sent;
    squares = step.views.all_squares;
  }
  backend_.RmsNormOfPart(queries, squares.Columns(0, 1),
                         int64_t{config_.num_heads} * config_.head_dim, attention.q_norm.data(),
                         config_.norm_eps);
  backend_.RmsNormOfPart(keys, squares.Columns(1, 1),
                         int64_t{config_.num_kv_heads} * config_.head_dim, attention.k_norm.data(),
                         config_.norm_eps);
  return absl::OkStatus();
}

// Norms that take a head by itself and thus need no other rank, and rotation.
QkNormRopeParams ShardModel::TurnOf(const AttentionWeights& attention) const {
  const AttentionSpec& spec = attention.spec;
  QkNormRopeParams turn{.num_heads = static_cast<int>(plan_.heads.size()),
                        .num_kv_heads = attention.num_kv_heads,
                        .head_dim = attention.head_dim,
                        .norm_eps = config_.norm_eps,
                        .clip = spec.clip};
  if (spec.qk_norm && spec.qk_norm_kind != QkNormKind::kWholeRms) {
    turn.query_norm = attention.q_norm.data();
    turn.key_norm = attention.k_norm.data_or_null();
    turn.query_norm_bias = attention.q_norm_bias.data_or_null();
    turn.key_norm_bias = attention.k_norm_bias.data_or_null();
    turn.norms_centred = spec.qk_norm_kind == QkNormKind::kHeadLayer ||
                         spec.qk_norm_kind == QkNormKind::kOwnHeadLayer;
    turn.norms_by_head = spec.qk_norm_kind == QkNormKind::kOwnHeadLayer;
  }
  if (spec.rope.has_value()) {
    turn.rotations = &step_rotations_[*spec.rope];
    turn.layout = rotations_[*spec.rope].layout();
  }
  return turn;
}

}  // namespace sluice
