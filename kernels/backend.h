// The arithmetic of a decoder: one contract per operation, implemented by each kind of device.
//
//   kernels/cpu         SIMD (Highway) and threads
//   kernels/reference   plain loops
//
// Every implementation keeps two promises, which the rest of Sluice builds on:
// - Batch invariance. A row of a result has the same bits whatever other rows are computed beside
//   it, however a sequence is cut into segments, and however many threads work: reductions run in
//   an order fixed by the shapes of the model alone.
// - Rank invariance. Where a reduction is cut over tensor-parallel ranks, it is a fixed binary tree
//   over `num_slices` runs of the reduced dimension; a rank computes a whole subtree and the rank
//   group joins the subtrees, so 1, 2, 4 and 8 ranks give the same bits.
//
// When things happen
//   Operations are enqueued in call order on one stream of work, and may be carried out at any time
//   the next wait returns; a failure shows there. Waits are Synchronize() and what fills host
//   memory: CopyOut(), GatherElements(), TopK() and Sample(). On CPU an operation has finished when
//   its call returns. Spans are host memory, read (or copied aside) during the call: free again
//   when it returns. Everything else that an operation is given is memory of the backend (Buffer),
//   which the host must not touch, and must keep until the work that uses it is done. A backend is
//   driven by one thread at a time. Shapes that do not fit are broken invariants (SLUICE_CHECK),
//   never a user's fault.
//
// Element types
//   The residual stream, partial sums over ranks, logits and what goes over the wire are F32 on
//   every device, and so are queries, keys and values on their way to attention. Operands of
//   products, that is normed, attended and activated rows, have the backend's operand_dtype(): an
//   operation that writes them rounds once, as the product would.
//
// T rows of the step, H hidden, N and K outputs and inputs of a matrix, D head_dim, Nq/Nkv heads, F
// MLP width, V vocabulary, P positions.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/activation.h"
#include "kernels/deadline.h"
#include "kernels/kv_format.h"
#include "kernels/matrix_format.h"
#include "kernels/matrix_view.h"
#include "kernels/rank_group.h"
#include "kernels/sampling.h"

namespace sluice {

class MemorySharing;  // kernels/memory_sharing.h

// Memory of a backend. At least 64-byte aligned. Freed on destruction.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  virtual size_t size_bytes() const = 0;
};

// Memory of a device that has its own.
struct DeviceMemory {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // now, whoever uses the rest
};

// A weight matrix [N, K] in whatever layout the backend multiplies fastest.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual int64_t num_outputs() const = 0;  // N
  virtual int64_t num_inputs() const = 0;   // K
  virtual size_t size_bytes() const = 0;
};

struct PackSpec {
  int64_t num_outputs = 0;
  int64_t num_inputs = 0;
  // With activations in FP8, a device that multiplies FP8 numbers may round a slice of an output's
  // weights to FP8 numbers relative to one scale: what is no multiple of 2^-9 of the largest group's
  // scale, if all of them are powers of two.
  MatrixFormat format;
  // Number of equal runs of K that are each summed in order of k and then joined in a binary tree.
  // A power of two that divides K. 1 where no reduction ever crosses ranks. A run is a
  // multiple of the weight format's group.
  int num_slices = 1;
  // The outputs are F gates and then F ups, N = 2F: Gemm joins each gate with its up.
  bool gated = false;
};

// Writes rows [row_begin, row_end) of a matrix one after another, each as weight_format.h describes
// a row in the weight format of the PackSpec. Called by several threads at a time.
using RowReader =
    std::function<absl::Status(int64_t row_begin, int64_t row_end, absl::Span<std::byte> out)>;

// The keys and values of all blocks of some layers, paged. A block holds `block_size` consecutive
// positions.
class KvPool {
 public:
  virtual ~KvPool() = default;
  virtual size_t size_bytes() const = 0;
};

// A block takes 2 * num_layers * block_size * num_kv_heads vectors of KvVectorBytes(dtype, head_dim)
// bytes, and nothing besides.
struct KvPoolSpec {
  int num_layers = 0;
  int num_blocks = 0;
  int block_size = 16;
  int num_kv_heads = 0;
  int head_dim = 0;
  DType dtype = DType::kF32;  // one of IsKvType: kernels/kv_format.h says how each is kept
};

// The keys and values of one block are to become those of another as well. Both in [0, num_blocks).
struct KvBlockCopy {
  int32_t source = 0;
  int32_t destination = 0;
};

// The rows of one sequence in a step: rows [first_row, first_row + num_rows) of the activations are
// its positions first_position, first_position + 1, ...; position p lives in slot p % block_size of
// block_table[p / block_size].
struct AttentionSegment {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t first_position = 0;
  absl::Span<const int32_t> block_table;
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

// What becomes of a step's queries and keys before attention: each part where there is one.
struct HeadTurn {
  int num_heads = 0;     // Nq
  int num_kv_heads = 0;  // Nkv
  int head_dim = 0;
  const float* query_norm = nullptr;  // [D] F32: HeadRmsNorm of the queries
  const float* key_norm = nullptr;    // [D] F32: of the keys
  float norm_eps = 0;
  const RopeTables* rotations = nullptr;  // Rope of both
  RopeLayout layout = RopeLayout::kHalfSplit;
};

struct AttentionOptions {
  float scale = 1;     // of the products of queries and keys
  int64_t window = 0;  // newest positions that a row sees, its own included; 0: all of them
};

// What a product makes of its sums before it writes them, in this order.
struct GemmEpilogue {
  const float* bias = nullptr;  // [N] F32 of the backend's memory, added to every row
  // Of every sum or, where the weights are gated, activation(gate) * up: SwiGLU with kSilu, GeGLU
  // with kGelu or kGeluTanh (Shazeer 2020). Gated weights must have one.
  std::optional<Activation> activation;
  bool add_to_out = false;  // out += the result instead of out = the result
};

// Tells apart the steps that a backend may record. Whatever is enqueued under one key is the same
// operations on the same memory; only what BeginStep() and CopyIn() were given differs.
struct StepKey {
  int64_t rows = 0;              // BucketRows() of the step's
  const void* memory = nullptr;  // of the rows that go in and come out
  int variant = 0;               // whatever else the caller's operations depend on

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the default for a literal 0
  auto operator<=>(const StepKey&) const = default;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // All that the bits of its operations depend on: kind of device, where that leaves a choice what
  // computes its products, and a version: "cpu/avx512_bf16 v3". Two backends of one name give the
  // same bits, whatever the processors.
  virtual std::string_view name() const = 0;
  // Element type of the operands of products: F32 on CPU.
  virtual DType operand_dtype() const = 0;

  // ---- Memory ----

  // nullopt where it is the host's.
  virtual std::optional<DeviceMemory> memory() const { return std::nullopt; }
  // RESOURCE_EXHAUSTED where the device lacks memory. The contents are zero.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size_bytes) = 0;
  virtual void CopyIn(absl::Span<const std::byte> host, void* device) = 0;
  // Waits for the work enqueued before, as Synchronize() does.
  virtual absl::Status CopyOut(const void* device, absl::Span<std::byte> host) = 0;

  // Waits until all work is done. Returns the first failure since the last call, after which what
  // was enqueued behind it has been dropped, or DEADLINE_EXCEEDED where the work is not done in
  // time: then memory in use stays so, and the backend is lost.
  virtual absl::Status Synchronize(Deadline deadline) = 0;
  // No wait is without a bound.
  static constexpr absl::Duration kLongestWait = absl::Minutes(2);
  absl::Status Synchronize() { return Synchronize(Deadline::After(kLongestWait)); }

  // Reads every row once, at most 64 at a time, so that no second copy of the matrix is ever held.
  // Returns what `read` returns when it fails, or RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const PackSpec& spec,
                                                             const RowReader& read) = 0;
  // Memory is reserved, not touched: pages that no position uses cost nothing where the system
  // allows it.
  virtual absl::StatusOr<std::unique_ptr<KvPool>> NewKvPool(const KvPoolSpec& spec) = 0;

  // Sets aside what Gemm with `weights`, or PagedAttention over `pool`, takes for up to `max_rows`
  // rows, so that nothing is allocated while serving. Without it that happens when they first meet
  // a step as large.
  virtual void ReserveForGemm(const PackedMatrix& weights, int64_t max_rows) = 0;
  virtual void ReserveForAttention(const KvPool& pool, int64_t max_rows) = 0;

  // What adds up partial results of `spec`'s ranks in this backend's stream. RESOURCE_EXHAUSTED
  // where the device lacks memory.
  virtual absl::StatusOr<std::unique_ptr<RankGroup>> NewRankGroup(const RankGroupSpec& spec) = 0;

  // How its memory is shared with other backends on this host; null where it is not.
  virtual MemorySharing* sharing() { return nullptr; }

  // ---- Steps ----

  // Rows that a step of `rows` is computed with, at least as many: those behind mean nothing, and
  // hold anything. So that a step can be recorded for all steps of about its size; on CPU it is
  // `rows` itself. Never falls as `rows` rises.
  virtual int64_t BucketRows(int64_t rows) const { return rows; }

  // Says which rows of a step of `rows` rows (BucketRows() of what it has) belong to which
  // positions, for Rope, StoreKv and PagedAttention until the next call. Segments don't overlap;
  // rows of none are computed like those of position 0 and stored nowhere.
  virtual void BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) = 0;

  // Calls `enqueue`, which enqueues a step's operations and waits for none, or does as it did when
  // it was last called with `key`. Returns what it returned.
  virtual absl::Status RunStep(const StepKey& key, absl::FunctionRef<absl::Status()> enqueue) {
    return enqueue();
  }

  // ---- Operations ----

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

  // The same for every head of x [T, heads * head_dim] by itself, in place. weight [head_dim] F32.
  virtual void HeadRmsNorm(MatrixView x, int head_dim, const float* weight, float eps) = 0;

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

  // Rotates the first 2 * pairs elements of every head of x [T, heads * head_dim] in place (Su et
  // al. 2021): (a, b) -> (a cos - b sin, b cos + a sin), with the step's angles. x F32.
  virtual void Rope(MatrixView x, int head_dim, const RopeTables& tables, RopeLayout layout) = 0;

  // Writes keys and values [T, Nkv * D] F32 of the step's positions into their slots of `layer`.
  virtual void StoreKv(MatrixView keys, MatrixView values, int layer, KvPool& pool) = 0;

  // All that a layer does between its products with queries, keys and values and its attention:
  // HeadRmsNorm and Rope of queries and keys, then StoreKv, with the same bits. qkv [T, (Nq + 2 Nkv)
  // * D] F32: queries, keys, values side by side. Queries are turned in place; what is left of the
  // keys is undefined.
  virtual void TurnAndStoreKv(MatrixView qkv, const HeadTurn& turn, int layer, KvPool& pool);

  // Copies whole blocks, of all layers, one copy after another: the source of one may be the
  // destination of one before it. What a block holds in slots never stored to is copied too.
  virtual void CopyBlocks(absl::Span<const KvBlockCopy> copies, KvPool& pool) = 0;

  // Causal attention of every row over positions 0..p of its own sequence, p being the row's
  // position, or over the newest `window` of them (Beltagy et al. 2020), all stored before:
  // out[t] = softmax(scale * q k^T) v per head; query head h reads KV head h / (Nq / Nkv). One
  // contract for decode (num_rows 1) and prefill chunks: each split of the context by itself,
  // then merged in ascending order (kernels/attention_splits.h), by online softmax (Milakov and
  // Gimelshein 2018; Kwon et al. 2023; Dao et al. 2023). q [T, Nq * D] F32, out [T, Nq * D] F32 or
  // in operand dtype; rows of no segment are left as they are. window >= 0.
  virtual void PagedAttention(MatrixView q, const KvPool& pool, int layer,
                              const AttentionOptions& options, MatrixView out) = 0;

  // x[t, n] += bias[n]. x [T, N], bias [N] F32.
  virtual void AddBias(const float* bias, MatrixView x) = 0;

  // x *= factor. x [T, N].
  virtual void Scale(float factor, MatrixView x) = 0;

  // residual += x. Both [T, H].
  virtual void AddResidual(MatrixView x, MatrixView residual) = 0;

  // out = the sum of `partials`, a power of two of [T, N] matrices, as a balanced binary tree over
  // neighbours:
  // ((p0 + p1) + (p2 + p3)) + ... out may be one of them.
  virtual void TreeAdd(absl::Span<const MatrixView> partials, MatrixView out) = 0;

  // update.residual += the tree over `partials` (as TreeAdd's) + bias, and its norm: TreeAdd, AddBias,
  // AddResidual and RmsNorm or LayerNorm, with the same bits. The first partial is overwritten.
  virtual void TreeAddToResidual(absl::Span<const MatrixView> partials,
                                 const ResidualUpdate& update);

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
