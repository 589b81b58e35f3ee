#include "kernels/reference/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/attention_splits.h"
#include "kernels/open_attention_ops.h"
#include "kernels/reference/element.h"

namespace sluice {
namespace {

// The nearest number of FP8, ties to even, computed as arithmetic says and not from bits.
double RoundedToFp8(double x) {
  const int exponent = x == 0 ? -6 : std::max(std::ilogb(x), -6);
  const double step = std::ldexp(1, exponent - 3);
  return std::clamp(std::nearbyint(x / step) * step, -448.0, 448.0);
}

// A head vector as kernels/kv_format.h has it in FP8.
void StoreAsFp8(const float* from, int head_dim, float* to) {
  double largest = 0;
  bool is_finite = true;
  for (int d = 0; d < head_dim; ++d) {
    is_finite = is_finite && std::isfinite(from[d]);
    largest = std::max(largest, std::abs(double{from[d]}));
  }
  double scale = 0x1p-117;
  while (is_finite && scale < 0x1p7 && largest > 448 * scale) scale *= 2;
  for (int d = 0; d < head_dim; ++d) {
    to[d] = is_finite ? static_cast<float>(scale * RoundedToFp8(from[d] / scale))
                      : std::numeric_limits<float>::quiet_NaN();
  }
}

void StoreVector(const float* from, int head_dim, DType dtype, float* to) {
  if (dtype == DType::kF8E4M3) return StoreAsFp8(from, head_dim, to);
  std::transform(from, from + head_dim, to, [dtype](float value) {
    return dtype == DType::kBF16 ? FloatFromBFloat16(BFloat16FromFloat(value)) : value;
  });
}

// softmax(scale * q k^T), scores capped where the options say so, over positions [first, count)
// and the sink; zero before them. `bias` is of the head, for keys from position 0 on.
std::vector<double> Weights(const float* q, const ReferenceKvPool& pool, int layer, int kv_head,
                            const AttentionSegment& segment, int64_t first, int64_t count,
                            const AttentionOptions& options, std::optional<double> sink,
                            absl::FunctionRef<double(int64_t position)> bias) {
  std::vector<double> weights(count, -std::numeric_limits<double>::infinity());
  for (int64_t position = first; position < count; ++position) {
    const float* key = pool.At(pool.KeyIndex(segment, position, layer, kv_head));
    double score = 0;
    for (int d = 0; d < pool.spec().head_dim; ++d) score += double{q[d]} * key[d];
    weights[position] = options.scale * score;
    if (options.softcap > 0) {
      weights[position] = options.softcap * std::tanh(weights[position] / options.softcap);
    }
    weights[position] += bias(position);
  }
  const double maximum = *std::max_element(weights.begin(), weights.end());
  double sum = sink.has_value() ? std::exp(*sink - maximum) : 0;
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
        const int first = head * spec.head_dim;
        StoreVector(keys.Row(row) + first, spec.head_dim, spec.dtype, key);
        StoreVector(values.Row(row) + first, spec.head_dim, spec.dtype, value);
      }
    }
  }
}

void ReferenceStoreLatent(MatrixView vectors, absl::Span<const AttentionSegment> segments,
                          int layer, ReferenceKvPool& pool) {
  const KvPoolSpec& spec = pool.spec();
  for (const AttentionSegment& segment : segments) {
    for (int64_t i = 0; i < segment.num_rows; ++i) {
      float* to = pool.At(pool.KeyIndex(segment, segment.first_position + i, layer, 0));
      StoreVector(vectors.Row(segment.first_row + i), spec.head_dim, spec.dtype, to);
    }
  }
}

std::vector<double> ReferenceAttentionWeights(MatrixView q, const ReferenceKvPool& pool, int layer,
                                              const AttentionSegment& segment, int64_t row,
                                              int head, const AttentionOptions& options) {
  const int head_dim = pool.spec().head_dim;
  const auto group = static_cast<int>(q.cols / head_dim / pool.spec().num_kv_heads);
  const int64_t count = segment.first_position + row + 1;
  return Weights(
      q.Row(segment.first_row + row) + int64_t{head} * head_dim, pool, layer, head / group, segment,
      FirstSeenPosition(count - 1, options.window, options.chunk), count, options,
      options.sinks == nullptr ? std::nullopt : std::optional<double>(options.sinks[head]),
      [](int64_t) { return 0.0; });
}

void ReferenceAttention(MatrixView q, const ReferenceKvPool& pool, int layer,
                        absl::Span<const AttentionSegment> segments,
                        const AttentionOptions& options, const DistanceBias& bias, int64_t ahead,
                        MatrixView out) {
  const int head_dim = pool.spec().head_dim, value_dim = pool.spec().value_dim();
  const int num_heads = static_cast<int>(q.cols / head_dim);
  const int group = num_heads / pool.spec().num_kv_heads;
  for (const AttentionSegment& segment : segments) {
    for (int64_t i = 0; i < segment.num_rows; ++i) {
      const int64_t row = segment.first_row + i;
      const int64_t position = segment.first_position + i;
      const int64_t first = FirstSeenPosition(position, options.window, options.chunk);
      const int64_t count =
          1 + LastSeenPosition(position, ahead, segment.first_position + segment.num_rows - 1);
      for (int head = 0; head < num_heads; ++head) {
        const std::vector<double> weights = Weights(
            q.Row(row) + int64_t{head} * head_dim, pool, layer, head / group, segment, first, count,
            options,
            options.sinks == nullptr ? std::nullopt : std::optional<double>(options.sinks[head]),
            [&](int64_t key) {
              if (bias.values == nullptr) return 0.0;
              const int64_t offset = std::clamp(key - position, -bias.reach, bias.reach);
              return double{bias.values[head * (2 * bias.reach + 1) + offset + bias.reach]};
            });
        for (int d = 0; d < value_dim; ++d) {
          double sum = 0;
          for (int64_t seen = first; seen < count; ++seen) {
            sum += weights[seen] * pool.At(pool.ValueIndex(segment, seen, layer, head / group))[d];
          }
          StoreElement(out, row, head * value_dim + d, static_cast<float>(sum));
        }
      }
    }
  }
}

}  // namespace sluice
