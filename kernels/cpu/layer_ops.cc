#include "kernels/cpu/layer_ops.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/rope.h"

namespace sluice {

namespace {

void Clamp(CpuContext& context, float limit, MatrixView x) {
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (float* value = x.Row(t); value != x.Row(t) + x.cols; ++value) {
        *value = std::clamp(*value, -limit, limit);
      }
    }
  });
}

}  // namespace

void ApplyQkNormRopeAndStoreKv(CpuContext& context, MatrixView qkv, const QkNormRopeParams& params,
                               int layer, CpuKvPool& pool) {
  const int64_t query_width = int64_t{params.num_heads} * params.head_dim;
  const int64_t kv_width = int64_t{params.num_kv_heads} * params.head_dim;
  SLUICE_CHECK(qkv.cols == query_width + 2 * kv_width);
  const MatrixView queries = qkv.Columns(0, query_width);
  const MatrixView keys = qkv.Columns(query_width, kv_width);
  if (params.clip > 0) Clamp(context, params.clip, qkv);
  HeadNorm norm{.head_dim = params.head_dim,
                .weight = params.query_norm,
                .bias = params.query_norm_bias,
                .by_head = params.norms_by_head,
                .centred = params.norms_centred,
                .eps = params.norm_eps};
  if (norm.weight != nullptr) NormHeads(context, queries, norm);
  norm.weight = params.key_norm;
  norm.bias = params.key_norm_bias;
  if (norm.weight != nullptr) NormHeads(context, keys, norm);
  if (params.rotations != nullptr) {
    // They are side by side and rotated alike.
    Rope(context, qkv.Columns(0, query_width + kv_width), params.head_dim, *params.rotations,
         params.layout);
  }
  if (params.num_kv_heads == 0) return;
  StoreKv(context, keys, qkv.Columns(query_width + kv_width, kv_width), layer, pool);
}

void PrepareLatentAttention(CpuContext& context, MatrixView q, MatrixView kv,
                            const LatentParams& params, int layer, CpuKvPool& pool,
                            MatrixView queries) {
  const int64_t query_dim = params.nope_dim + params.rope_dim;
  const int64_t stored_dim = params.latent_dim + params.rope_dim;
  SLUICE_CHECK(kv.cols == stored_dim && q.cols == params.num_heads * query_dim);
  SLUICE_CHECK(queries.rows == q.rows && queries.cols == params.num_heads * stored_dim);
  const MatrixView latent = kv.Columns(0, params.latent_dim);
  RmsNorm(context, latent, params.latent_norm, params.norm_eps, latent);
  const HeadLayout shared_key{.count = 1, .step = stored_dim, .first = params.latent_dim};
  RopeHeads(context, kv, shared_key, kv, shared_key, *params.rotations, params.layout);
  StoreLatent(context, kv, layer, pool);
  RopeHeads(context, q, {.count = params.num_heads, .step = query_dim, .first = params.nope_dim},
            queries, {.count = params.num_heads, .step = stored_dim, .first = params.latent_dim},
            *params.rotations, params.layout);
}

void TreeAddToResidual(CpuContext& context, absl::Span<const MatrixView> partials,
                       const ResidualUpdate& update) {
  const MatrixView sum = partials[0];
  if (partials.size() > 1) TreeAdd(context, partials, sum);
  if (update.bias != nullptr) AddBias(context, update.bias, sum);
  AddResidual(context, sum, update.residual);
  if (!update.norm.has_value()) return;
  const RowNorm& norm = *update.norm;
  if (norm.centred) {
    LayerNorm(context, update.residual, norm.weight, norm.bias, norm.eps, update.normed);
  } else {
    RmsNorm(context, update.residual, norm.weight, norm.eps, update.normed);
  }
}

}  // namespace sluice
