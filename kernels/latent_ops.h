// What a layer with latent attention (DeepSeek-AI 2024, "DeepSeek-V2") computes besides products
// with whole rows and attention itself (Ops::PagedAttention over a latent pool), one contract per
// operation. A part of a backend: kernels/backend.h says what all operations have in common.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/device.h"
#include "kernels/matrix_view.h"
#include "kernels/ops.h"
#include "kernels/packed_matrix.h"

namespace sluice {

// Sizes of one layer's latent attention, and what is done to its latent and its keys.
struct LatentParams {
  int num_heads = 0;   // Nq
  int nope_dim = 0;    // of a query, elements that are not rotated
  int rope_dim = 0;    // of a query and of the key that all heads share, elements that are
  int latent_dim = 0;  // of what keys and values are linear functions of
  const float* latent_norm = nullptr;  // [latent_dim] F32
  float norm_eps = 0;
  const RopeTables* rotations = nullptr;  // of at most rope_dim / 2 pairs; others stay
  RopeLayout layout = RopeLayout::kInterleaved;
};

// The columns of a matrix that belong to heads: those of head h begin at h * step.
struct HeadColumns {
  MatrixView all;
  int64_t step = 0;

  MatrixView Of(int64_t head, int64_t count) const { return all.Columns(head * step, count); }
};

class LatentOps {
 public:
  virtual ~LatentOps() = default;

  // For every head h the product of its columns of x with weights[h] [N, K], as Gemm computes it
  // and with its bits: out's N columns of h from x's K columns of h. All weights have one shape and
  // format, F32 or BF16, and none is gated. x F32 or in operand dtype, out as Gemm's, not
  // overlapping.
  virtual void GemmOfHeads(const HeadColumns& x, absl::Span<const PackedMatrix* const> weights,
                           const HeadColumns& out) = 0;
  // Sets aside what that takes for up to `max_rows` rows, as Device::ReserveForGemm does.
  virtual void ReserveForGemmOfHeads(absl::Span<const PackedMatrix* const> weights,
                                     int64_t max_rows) = 0;

  // All that such a layer does between its products with the hidden state and its attention, but
  // for the product that absorbs the keys' map into the queries (GemmOfHeads). q [T, Nq * (nope_dim
  // + rope_dim)] F32: the queries, each its plain and then its rotated part; kv [T, latent_dim +
  // rope_dim] F32: the latent and the key that all heads share; rows are the step's.
  // 1. The latent becomes x / sqrt(mean(x^2) + eps) * weight.
  // 2. The shared key is rotated by the row's angles, as ApplyQkNormRopeAndStoreKv does, and stored
  //    behind the latent in the slots of `layer` of the rows' positions. `pool` is a latent one.
  // 3. The rotated part of every query goes to the last rope_dim of the latent_dim + rope_dim
  //    columns that its head has in queries [T, Nq * (latent_dim + rope_dim)] F32; the others stay.
  // kv is undefined afterwards.
  virtual void PrepareLatentAttention(MatrixView q, MatrixView kv, const LatentParams& params,
                                      int layer, KvPool& pool, MatrixView queries) = 0;
};

}  // namespace sluice
