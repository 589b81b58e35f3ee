// What one head has of a row, between a product and attention: normed, turned, stored. By a warp.
// After simt.h.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kv_pool.h"
#include "kernels/cuda/norm.h"

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
  // Vector `index` of row `row`.
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
  }

  SIMT_DEVICE void Run() {
    const bool is_stored = kind_ != kQuery;
    if (is_stored && place_.table_begin < 0) return;
    if (is_stored) slot_ = SlotIndex();
    if (kind_ == kValue) return PutRest(0);
    weight_ = kind_ == kQuery ? task_.turn.query_norm : task_.turn.key_norm;
    if (weight_ != nullptr) {
      const float variance = SumOfSquares(x_, size_) / static_cast<float>(size_);
      scale_ = 1.0f / SquareRoot(variance + task_.turn.norm_eps);
      WarpBarrier();  // before what others read is written over
    }
    const auto pairs = static_cast<int>(task_.turn.cos.cols);
    PutPairs(pairs);
    if (is_stored || weight_ != nullptr) PutRest(2 * pairs);
  }

 private:
  enum Kind { kQuery, kKey, kValue };

  // Where the vector begins in the pool.
  SIMT_DEVICE int64_t SlotIndex() const {
    const KvLayout& pool = task_.pool;
    const int64_t block = task_.tables[place_.table_begin + place_.position / pool.block_size];
    return pool.Index(task_.layer, block, kind_ == kValue, head_,
                      place_.position % pool.block_size);
  }

  SIMT_DEVICE float Normed(int i) const {
    return weight_ == nullptr ? x_[i] : x_[i] * scale_ * weight_[i];
  }

  SIMT_DEVICE void PutPairs(int pairs) {
    if (pairs == 0) return;
    const int64_t angle = task_.turn.angles_by_row ? row_ : place_.position;
    const float* const cos = RowOf(task_.turn.cos, angle);
    const float* const sin = RowOf(task_.turn.sin, angle);
    for (int pair = lane_; pair < pairs; pair += kWarpSize) {
      const int first = task_.turn.interleaved ? 2 * pair : pair;
      const int second = task_.turn.interleaved ? 2 * pair + 1 : pair + pairs;
      const float a = Normed(first), b = Normed(second);
      Put(first, a * cos[pair] - b * sin[pair]);
      Put(second, b * cos[pair] + a * sin[pair]);
    }
  }
  // What is not turned: elements from `begin` on.
  SIMT_DEVICE void PutRest(int begin) {
    for (int i = begin + lane_; i < size_; i += kWarpSize) Put(i, Normed(i));
  }

  SIMT_DEVICE void Put(int i, float element) {
    if (kind_ == kQuery) {
      x_[i] = element;
    } else {
      Store(slot_ + i, element);
    }
  }

  SIMT_DEVICE void Store(int64_t index, float element) const {
    const KvLayout& pool = task_.pool;
    const bool is_value = kind_ == kValue;
    if (is_value && !IsFinite(element)) *pool.has_nonfinite = 1;
    if (pool.dtype == DType::kF32) {
      reinterpret_cast<float*>(pool.data)[index] = element;
    } else {
      reinterpret_cast<uint16_t*>(pool.data)[index] = Rounded(element);
      // A finite number may round to infinity.
      if (is_value && !IsFinite(Widened(Rounded(element)))) *pool.has_nonfinite = 1;
    }
  }

  const StoreKvTask& task_;
  const RowPlace place_;
  const int64_t row_;
  const int lane_, size_;
  Kind kind_;
  int head_;
  float* x_;
  const float* weight_ = nullptr;
  float scale_ = 1;
  int64_t slot_ = 0;  // of keys and values
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
