// What one head has of a row, between a product and attention: normed, turned, stored. By a warp.
// After simt.h.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kv_pool.h"
#include "kernels/cuda/norm.h"
#include "kernels/fp8.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// Vectors of a row: queries, keys and values.
constexpr int64_t HeadsOfRow(const StoreKvTask& task) {
  return (task.queries.cols + task.keys.cols + task.values.cols) / task.pool.head_dim;
}

// The sum of squares in the order of norms (kNormSums sums, joined pairwise), of which a head this
// small has one element each.
SIMT_DEVICE float SumOfSquares(const float* x, int size) {
  static_assert(kMostHeadDim <= kNormSums);
  constexpr int kWarps = kNormSums / kWarpSize;  // of the block that norms by itself
  float sums[kWarps];
  SIMT_UNROLL
  for (int warp = 0; warp < kWarps; ++warp) {
    const int i = warp * kWarpSize + Thread() % kWarpSize;
    const float element = i < size ? x[i] : 0.0f;
    sums[warp] = JoinLanes(FusedMultiplyAdd(element, element, 0.0f), Plus());
  }
  SIMT_UNROLL
  for (int step = 1; step < kWarps; step *= 2) {
    SIMT_UNROLL
    for (int warp = 0; warp < kWarps; warp += 2 * step) sums[warp] += sums[warp + step];
  }
  return sums[0];
}

class HeadVector {
 public:
  // Vector `index` of row `row`. Finds its place before the kernels before this one have ended: none
  // writes the step's tables.
  SIMT_DEVICE HeadVector(const StoreKvTask& task, int64_t row, int index)
      : task_(task),
        place_(task.rows[row]),
        row_(row),
        lane_(Thread() % kWarpSize),
        size_(task.pool.head_dim) {
    const auto num_queries = static_cast<int>(task.queries.cols / size_);
    const auto num_keys = static_cast<int>(task.keys.cols / size_);
    kind_ = index < num_queries ? kQuery : index < num_queries + num_keys ? kKey : kValue;
    head_ = index - (kind_ == kQuery ? 0 : kind_ == kKey ? num_queries : num_queries + num_keys);
    const MatrixView& of = kind_ == kQuery ? task.queries : kind_ == kKey ? task.keys : task.values;
    x_ = RowOf(of, row) + head_ * size_;
    if (is_stored()) FindSlot();
  }

  SIMT_DEVICE void Run() {
    if (kind_ != kQuery && !is_stored()) return;
    if (kind_ != kValue) BeginTurn();
    if (!is_stored()) {
      ForElements([&](int i, float element) { x_[i] = element; });
    } else if (task_.pool.dtype == DType::kF8E4M3) {
      StoreAsFp8();
    } else {
      ForElements([&](int i, float element) { Store(i, element); });
    }
  }

 private:
  enum Kind { kQuery, kKey, kValue };

  // Queries are not, nor what belongs to no sequence.
  SIMT_DEVICE bool is_stored() const { return kind_ != kQuery && place_.table_begin >= 0; }

  // Where the vector begins in the pool.
  SIMT_DEVICE void FindSlot() {
    const KvLayout& pool = task_.pool;
    const int64_t block = task_.tables[place_.table_begin + place_.position / pool.block_size];
    vector_ = pool.Vector(task_.layer, block, head_, place_.position % pool.block_size);
    slot_ = pool.data + (kind_ == kValue ? pool.values_begin : 0) + vector_ * pool.VectorBytes();
  }

  SIMT_DEVICE void BeginTurn() {
    pairs_ = static_cast<int>(task_.turn.cos.cols);
    weight_ = kind_ == kQuery ? task_.turn.query_norm : task_.turn.key_norm;
    if (weight_ == nullptr) return;
    const float variance = SumOfSquares(x_, size_) / static_cast<float>(size_);
    scale_ = 1.0f / SquareRoot(variance + task_.turn.norm_eps);
    WarpBarrier();  // before what others read is written over
  }

  SIMT_DEVICE float Normed(int i) const {
    return weight_ == nullptr ? x_[i] : x_[i] * scale_ * weight_[i];
  }

  // Calls put(i, element) for the lane's elements, normed and turned; not for those of a query that
  // stay as they are.
  template <class Put>
  SIMT_DEVICE void ForElements(Put put) {
    ForPairs(put);
    if (kind_ == kQuery && weight_ == nullptr) return;
    for (int i = 2 * pairs_ + lane_; i < size_; i += kWarpSize) put(i, Normed(i));
  }
  template <class Put>
  SIMT_DEVICE void ForPairs(Put put) {
    if (pairs_ == 0) return;
    const int64_t angle = task_.turn.angles_by_row ? row_ : place_.position;
    const float* const cos = RowOf(task_.turn.cos, angle);
    const float* const sin = RowOf(task_.turn.sin, angle);
    for (int pair = lane_; pair < pairs_; pair += kWarpSize) {
      const int first = task_.turn.interleaved ? 2 * pair : pair;
      const int second = task_.turn.interleaved ? 2 * pair + 1 : pair + pairs_;
      const float a = Normed(first), b = Normed(second);
      put(first, a * cos[pair] - b * sin[pair]);
      put(second, b * cos[pair] + a * sin[pair]);
    }
  }

  SIMT_DEVICE void Store(int i, float element) const {
    const KvLayout& pool = task_.pool;
    const bool is_value = kind_ == kValue;
    if (is_value && !IsFinite(element)) Raise(pool.has_nonfinite);
    if (pool.dtype == DType::kF32) {
      reinterpret_cast<float*>(slot_)[i] = element;
    } else {
      reinterpret_cast<uint16_t*>(slot_)[i] = Rounded(element);
      // A finite number may round to infinity.
      if (is_value && !IsFinite(Widened(Rounded(element)))) Raise(pool.has_nonfinite);
    }
  }

  // The largest element first, then codes relative to its scale.
  SIMT_DEVICE void StoreAsFp8() {
    const KvLayout& pool = task_.pool;
    uint32_t largest = 0;
    ForElements(
        [&](int, float element) { largest = Larger()(largest, BitsOf(element) & 0x7fffffffu); });
    const uint16_t scale = Fp8ScaleFor(JoinLanes(largest, Larger()));
    const bool is_finite = IsFinite(Widened(scale));
    const float inverse = is_finite ? Fp8Inverse(scale) : 0.0f;
    auto* const codes = reinterpret_cast<uint8_t*>(slot_);
    ForElements([&](int i, float element) {
      codes[i] = is_finite ? Fp8FromFloat(element * inverse) : uint8_t{0};
    });
    if (lane_ != 0) return;
    auto* const scales = reinterpret_cast<uint16_t*>(pool.data + pool.scales_begin);
    scales[2 * vector_ + (kind_ == kValue ? 1 : 0)] = scale;
    if (kind_ == kValue && !is_finite) Raise(pool.has_nonfinite);
  }

  const StoreKvTask& task_;
  const RowPlace place_;
  const int64_t row_;
  const int lane_, size_;
  Kind kind_;
  int head_;
  float* x_;
  int pairs_ = 0;
  const float* weight_ = nullptr;
  float scale_ = 1;
  int64_t vector_ = 0;         // of keys and values: which of the pool
  std::byte* slot_ = nullptr;  // its elements
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
