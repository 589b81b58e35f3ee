// What a decoder computes, one contract per operation. kernels/backend.h says what all of them have in
// common: promises, time and element types. kernels/reference has each as plain loops.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/activation.h"
#include "kernels/device.h"
#include "kernels/kv_format.h"
#include "kernels/matrix_view.h"
#include "kernels/packed_matrix.h"
#include "kernels/rank_group.h"
#include "kernels/sampling.h"

namespace sluice {

// The keys and values of one block are to become those of another as well. Both in [0, num_blocks).
struct KvBlockCopy {
  int32_t source = 0;
  int32_t destination = 0;
};

// How a rotation pairs the elements of a head: i with i + rotated/2 (half-split), or 2i with 2i+1
// (interleaved).
enum class RopeLayout { kHalfSplit, kInterleaved };

// The angles of rotary positions as cosines and sines, [rows, pairs] F32 both.
struct RopeTables {
  enum class Index {
    kPosition,  // row p is of position p, for all steps
    kRow,       // row t is of row t of this step
  };

  MatrixView cos;
  MatrixView sin;
  Index index = Index::kPosition;
};

// What ApplyQkNormRopeAndStoreKv does to queries and keys.
struct QkNormRopeParams {
  int num_heads = 0;     // Nq
  int num_kv_heads = 0;  // Nkv
  int head_dim = 0;
  const float* query_norm = nullptr;       // [D] F32, or [Nq, D] with norms_by_head; null: no norm
  const float* key_norm = nullptr;         // [D] F32, or [Nkv, D] with norms_by_head; null: no norm
  const float* query_norm_bias = nullptr;  // [D] F32, of centred norms; null: none
  const float* key_norm_bias = nullptr;    // [D] F32, of centred norms; null: none
  bool norms_centred = false;              // LayerNorm, else RMSNorm
  bool norms_by_head = false;              // every head has weights of its own; without biases
  float norm_eps = 0;
  // Above 0: queries, keys and values are clamped to -clip .. clip before the norms of heads.
  float clip = 0;
  const RopeTables* rotations = nullptr;  // null: none
  RopeLayout layout = RopeLayout::kHalfSplit;
};

struct AttentionOptions {
  float scale = 1;     // of the products of queries and keys
  int64_t window = 0;  // newest positions that a row sees, its own included; 0: all of them
  // Positions: a row sees those of its own run of so many, counted from position 0; 0: all of them.
  int64_t chunk = 0;
  // [Nq] F32 of the backend's memory: a score of each head that takes part in the softmax, without
  // a value (Xiao et al. 2023); null: none.
  const float* sinks = nullptr;
  float softcap = 0;  // a scaled product s becomes softcap * tanh(s / softcap), > 0; 0: it stays
};

// What a product makes of its sums before it writes them, in this order.
struct GemmEpilogue {
  const float* bias = nullptr;  // [N] F32 of the backend's memory, added to every row
  // Of every sum or, where the weights are gated, activation(gate) * up: SwiGLU with kSilu, GeGLU
  // with kGelu or kGeluTanh (Shazeer 2020). Gated weights must have one.
  std::optional<Activation> activation;
  GatedClamp clamp;         // of kClampedSwiGlu
  bool add_to_out = false;  // out += the result instead of out = the result
};

class Ops {
 public:
  virtual ~Ops() = default;

  // out[t] = table[rows[t]]: embeddings of tokens, or some rows of a step. table [N, H] F32 or BF16,
  // out [T, H] F32, not overlapping. 0 <= rows[t] < N.
  virtual void GatherRows(MatrixView table, absl::Span<const int32_t> rows, MatrixView out) = 0;

  // values[i] = x[elements[i]]. x [T, N] F32; values is host memory, as long as `elements`, complete
  // when the call returns.
  virtual absl::Status GatherElements(MatrixView x, absl::Span<const MatrixElement> elements,
                                      absl::Span<float> values) = 0;

  // out = x / sqrt(mean(x^2) + eps) * weight, row by row (Zhang and Sennrich 2019). x [T, H] F32,
  // out [T, H] F32 (and then may be x) or in operand dtype, weight [H] F32.
  virtual void RmsNorm(MatrixView x, const float* weight, float eps, MatrixView out) = 0;

  // out = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, row by row, var being the mean of the
  // squared distances from the mean (Ba et al. 2016). x and out as RmsNorm's, weight [H] F32,
  // bias [H] F32 or nullptr for none.
  virtual void LayerNorm(MatrixView x, const float* weight, const float* bias, float eps,
                         MatrixView out) = 0;

  // out[t, n] = sum over k of x[t, k] * w[n, k], accumulated in F32 in the order that PackSpec
  // fixes, and what the epilogue makes of it. x [T, K] in operand dtype, out [T, N] or, where the
  // weights are gated, [T, N / 2], F32 or in operand dtype, not overlapping. Only F32 weights are
  // multiplied with x itself, all others with x rounded to BF16 (nearest even), as the matrix units
  // of CPUs and GPUs do, or to FP8 where PackSpec says so.
  virtual void Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out,
                    const GemmEpilogue& epilogue) = 0;
  void Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out) {
    Gemm(x, weights, out, {});
  }

  // All that a layer does between its products with queries, keys and values and its attention.
  // qkv [T, (Nq + 2 Nkv) * D] F32: queries, keys, values side by side; rows are the step's.
  // 1. With a norm, every head of the queries or keys becomes x / sqrt(mean(x^2) + eps) * weight, or
  //    with centred norms what LayerNorm makes of it.
  //    Before that, queries, keys and values are clamped where `clip` says so.
  // 2. With rotations, the first 2 * pairs elements of every head of queries and keys are rotated (Su
  //    et al. 2021) by the row's angles: (a, b) -> (a cos - b sin, b cos + a sin).
  // 3. Keys and values are stored in the slots of `layer` of the rows' positions.
  // Queries are changed in place; what is left of the keys is undefined.
  virtual void ApplyQkNormRopeAndStoreKv(MatrixView qkv, const QkNormRopeParams& params, int layer,
                                         KvPool& pool) = 0;

  // Copies whole blocks, of all layers, one copy after another: the source of one may be the
  // destination of one before it. What a block holds in slots never stored to is copied too.
  virtual void CopyBlocks(absl::Span<const KvBlockCopy> copies, KvPool& pool) = 0;

  // Causal attention of every row over positions 0..p of its own sequence, p being the row's
  // position, or over the newest `window` of them (Beltagy et al. 2020), all stored before:
  // out[t] = softmax(scale * q k^T) v per head; query head h reads KV head h / (Nq / Nkv). One
  // contract for decode (num_rows 1) and prefill chunks: each split of the context by itself,
  // then merged in ascending order (kernels/attention_splits.h), by online softmax (Milakov and
  // Gimelshein 2018; Kwon et al. 2023; Dao et al. 2023). q [T, Nq * D] F32, out [T, Nq *
  // value_dim()] F32 or in operand dtype; rows of no segment are left as they are. window >= 0. In
  // the latent layout all query heads read the one vector of a position.
  virtual void PagedAttention(MatrixView q, const KvPool& pool, int layer,
                              const AttentionOptions& options, MatrixView out) = 0;

  // x *= factor. x [T, N].
  virtual void Scale(float factor, MatrixView x) = 0;

  // x[t, n] *= factors[t]. x [T, N] F32, factors [T] F32 of the backend's memory.
  virtual void ScaleRows(const float* factors, MatrixView x) = 0;

  // x = cap * tanh(x / cap), which is within cap of 0 (Gemma Team 2024). x [T, N] F32, cap > 0.
  virtual void SoftCap(float cap, MatrixView x) = 0;

  // The two parts of an RMSNorm of rows that ranks share. The first sums the squares of a rank's
  // columns: out[t] = the balanced binary tree over the sums of `num_slices` equal runs of row t.
  // x [T, N] F32, out [T, 1] F32; num_slices is a power of two that divides N; N may be 0. The
  // second normalises them, given the sums of whole rows, of `count` elements:
  // x = x / sqrt(squares / count + eps) * weight. squares [T, 1] F32, weight [N] F32.
  virtual void SumSquares(MatrixView x, int num_slices, MatrixView out) = 0;
  virtual void RmsNormOfPart(MatrixView x, MatrixView squares, int64_t count, const float* weight,
                             float eps) = 0;

  // residual += x. Both [T, H].
  virtual void AddResidual(MatrixView x, MatrixView residual) = 0;

  // out = the sum of `partials`, a power of two of [T, N] matrices, as a balanced binary tree over
  // neighbours:
  // ((p0 + p1) + (p2 + p3)) + ... out may be one of them.
  virtual void TreeAdd(absl::Span<const MatrixView> partials, MatrixView out) = 0;

  // update.residual += (the tree over `partials`, as TreeAdd's) + bias, and the residual's norm as
  // RmsNorm's or LayerNorm's, with their bits. The first partial is overwritten.
  virtual void TreeAddToResidual(absl::Span<const MatrixView> partials,
                                 const ResidualUpdate& update) = 0;

  // out = x - log(sum(exp(x))) row by row, shifted by the maximum. x, out [T, V] (may be the same).
  virtual void LogSoftmax(MatrixView x, MatrixView out) = 0;

  // The k largest of every row in falling order, ties by the lower column; NaN counts as smallest.
  // values and ids are host memory [T, k] row-major; complete when the call returns. 1 <= k <= V.
  virtual absl::Status TopK(MatrixView x, int k, absl::Span<float> values,
                            absl::Span<int32_t> ids) = 0;

  // Chooses a token from every row of logits [T, V] F32, which stay as they are, as kernels/sampling.h
  // defines: results[t] is what rows[t] asks of row t. `results` is host memory [T], complete when
  // the call returns.
  virtual absl::Status Sample(MatrixView logits, absl::Span<const SampleRow> rows,
                              absl::Span<SampledRow> results) = 0;
};

}  // namespace sluice
