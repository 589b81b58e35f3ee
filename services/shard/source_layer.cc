// ShardModel's part of encoder-decoders: the rows of sources and of texts, each by itself, and attention
// of the second to the first.
#include "kernels/cross_attention_ops.h"
#include "services/shard/shard_model.h"

namespace sluice {

absl::Status ShardModel::RunPasses(absl::Span<const ShardSegment> segments, MatrixView hidden) {
  PlanTextPasses(segments, limits_.block_size, &passes_);
  if (passes_.is_text_alone()) return RunPass(passes_.text, hidden);
  const auto num_source = static_cast<int64_t>(passes_.source.rows.size());
  const auto num_text = static_cast<int64_t>(passes_.text.rows.size());
  const MatrixView apart = arena_.Views(hidden.rows).apart;
  const MatrixView source = apart.Rows(0, num_source), text = apart.Rows(num_source, num_text);
  absl::Status status;
  if (num_source > 0) {
    backend_.GatherRows(hidden, passes_.source.rows, source);
    status = RunPass(passes_.source, source);
  }
  if (status.ok() && num_text > 0) {
    backend_.GatherRows(hidden, passes_.text.rows, text);
    status = RunPass(passes_.text, text);
  }
  if (status.ok()) backend_.GatherRows(apart, passes_.places, hidden);
  return status;
}

absl::Status ShardModel::RunPass(const TextPass& pass, MatrixView rows) {
  backend_.BeginStep(pass.segments, rows.rows);
  Step step{.views = arena_.Views(rows.rows), .hidden = rows, .pass = &pass};
  step.sides = rows.Columns(rows.cols, 0);
  return RunLayers(step);
}

ShardModel::LayerUse ShardModel::UseOf(const LayerWeights& layer, const Step& step) {
  if (step.pass == nullptr) return LayerUse::kRun;
  const bool of_source = layer.reads == LayerSpec::Reads::kSource;
  if (step.pass == &passes_.source) return of_source ? LayerUse::kRun : LayerUse::kStoreSource;
  return of_source ? LayerUse::kSkip : LayerUse::kRun;
}

absl::Status ShardModel::StoreSource(const LayerWeights& layer, int index, const Step& step) {
  const AttentionWeights& attention = layer.attention;
  const CrossWeights& cross = *layer.cross;
  const MatrixView kv = step.views.qkv.Columns(0, cross.kv->num_outputs());
  absl::Status made = Multiply(step.hidden, *cross.kv, TensorRole::kCrossK, kv,
                               {.bias = cross.kv_bias.data_or_null()}, step);
  if (!made.ok()) return made;
  backend_.ApplyQkNormRopeAndStoreKv(
      kv, {.num_heads = 0, .num_kv_heads = attention.num_kv_heads, .head_dim = attention.head_dim},
      kv_slots_[index].layer, *kv_pools_[kv_slots_[index].pool]);
  return absl::OkStatus();
}

absl::Status ShardModel::AttendToSource(const LayerWeights& layer, int index, const Step& step) {
  const CrossWeights& cross = *layer.cross;
  const MatrixView queries = step.views.qkv.Columns(0, cross.q->num_outputs());
  const MatrixView attended = step.views.attended.Columns(0, queries.cols);
  const absl::Status made = Multiply(step.input, *cross.q, TensorRole::kCrossQ, queries,
                                     {.bias = cross.q_bias.data_or_null()}, step);
  if (!made.ok()) return made;
  backend_.cross_attention()->CrossAttention(
      queries, *kv_pools_[kv_slots_[index].pool], kv_slots_[index].layer,
      {.scale = layer.attention.spec.scale}, step.pass->sources, attended);
  const BranchEnd end{.post = layer.norms.after_attention ? &cross.post_norm : nullptr,
                      .post_is_of_sum = layer.norms.of_sum,
                      .next = layer.norms.before_mlp ? &layer.mlp_norm : nullptr};
  return AddProductToResidual(attended, *cross.o, TensorRole::kCrossO, cross.o_bias, end, step);
}

}  // namespace sluice
