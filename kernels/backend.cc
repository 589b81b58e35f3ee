#include "kernels/backend.h"

#include "kernels/check.h"

namespace sluice {

void Backend::TurnAndStoreKv(MatrixView qkv, const HeadTurn& turn, int layer, KvPool& pool) {
  const int64_t query_width = int64_t{turn.num_heads} * turn.head_dim;
  const int64_t kv_width = int64_t{turn.num_kv_heads} * turn.head_dim;
  SLUICE_CHECK(qkv.cols == query_width + 2 * kv_width);
  const MatrixView queries = qkv.Columns(0, query_width);
  const MatrixView keys = qkv.Columns(query_width, kv_width);
  if (turn.query_norm != nullptr) {
    HeadRmsNorm(queries, turn.head_dim, turn.query_norm, turn.norm_eps);
  }
  if (turn.key_norm != nullptr) HeadRmsNorm(keys, turn.head_dim, turn.key_norm, turn.norm_eps);
  if (turn.rotations != nullptr) {
    // They lie side by side and turn alike.
    Rope(qkv.Columns(0, query_width + kv_width), turn.head_dim, *turn.rotations, turn.layout);
  }
  StoreKv(keys, qkv.Columns(query_width + kv_width, kv_width), layer, pool);
}

void Backend::TreeAddToResidual(absl::Span<const MatrixView> partials,
                                const ResidualUpdate& update) {
  const MatrixView sum = partials[0];
  if (partials.size() > 1) TreeAdd(partials, sum);
  if (update.bias != nullptr) AddBias(update.bias, sum);
  AddResidual(sum, update.residual);
  if (!update.norm.has_value()) return;
  const RowNorm& norm = *update.norm;
  if (norm.centred) {
    LayerNorm(update.residual, norm.weight, norm.bias, norm.eps, update.normed);
  } else {
    RmsNorm(update.residual, norm.weight, norm.eps, update.normed);
  }
}

}  // namespace sluice
