#include "kernels/reference/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/element.h"

namespace sluice {
namespace {

float Stored(float value, DType dtype) {
  return dtype == DType::kBF16 ? FloatFromBFloat16(BFloat16FromFloat(value)) : value;
}

// softmax(scale * q k^T) over positions [first, count); zero before them.
std::vector<double> Weights(const float* q, const ReferenceKvPool& pool, int layer, int kv_head,
                            const AttentionSegment& segment, int64_t first, int64_t count,
                            float scale) {
  std::vector<double> weights(count, -std::numeric_limits<double>::infinity());
  for (int64_t position = first; position < count; ++position) {
    const float* key = pool.At(pool.KeyIndex(segment, position, layer, kv_head));
    double score = 0;
    for (int d = 0; d < pool.spec().head_dim; ++d) score += double{q[d]} * key[d];
    weights[position] = scale * score;
  }
  const double maximum = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - maximum);
  for (double& weight : weights) weight /= sum;
  return weights;
}

}  // namespace

void ReferenceStoreKv(MatrixView keys, MatrixView values,
                      absl::Span<const AttentionSegment> segments, int layer,
                      ReferenceKvPool& pool) {
  const KvPoolSpec& spec = pool.spec();
  for (const AttentionSegment& segment : segments) {
    for (int64_t i = 0; i < segment.num_rows; ++i) {
      const int64_t row = segment.first_row + i;
      const int64_t position = segment.first_position + i;
      for (int head = 0; head < spec.num_kv_heads; ++head) {
        float* key = pool.At(pool.KeyIndex(segment, position, layer, head));
        float* value = pool.At(pool.ValueIndex(segment, position, layer, head));
        for (int d = 0; d < spec.head_dim; ++d) {
          key[d] = Stored(keys.Row(row)[head * spec.head_dim + d], spec.dtype);
          value[d] = Stored(values.Row(row)[head * spec.head_dim + d], spec.dtype);
        }
      }
    }
  }
}

void ReferenceAttention(MatrixView q, const ReferenceKvPool& pool, int layer,
                        absl::Span<const AttentionSegment> segments,
                        const AttentionOptions& options, MatrixView out) {
  const int head_dim = pool.spec().head_dim;
  const int num_heads = static_cast<int>(q.cols / head_dim);
  const int group = num_heads / pool.spec().num_kv_heads;
  for (const AttentionSegment& segment : segments) {
    for (int64_t i = 0; i < segment.num_rows; ++i) {
      const int64_t row = segment.first_row + i;
      const int64_t count = segment.first_position + i + 1;
      const int64_t first = options.window == 0 ? 0 : std::max<int64_t>(0, count - options.window);
      for (int head = 0; head < num_heads; ++head) {
        const std::vector<double> weights =
            Weights(q.Row(row) + head * head_dim, pool, layer, head / group, segment, first, count,
                    options.scale);
        for (int d = 0; d < head_dim; ++d) {
          double sum = 0;
          for (int64_t position = first; position < count; ++position) {
            sum += weights[position] *
                   pool.At(pool.ValueIndex(segment, position, layer, head / group))[d];
          }
          StoreElement(out, row, head * head_dim + d, static_cast<float>(sum));
        }
      }
    }
  }
}

}  // namespace sluice
