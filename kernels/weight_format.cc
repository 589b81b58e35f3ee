#include "kernels/weight_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/check.h"
#include "kernels/dtype.h"

namespace sluice {
namespace {

using Group = absl::Span<const float>;  // kWeightGroup weights

// Quotients q of a group, and the scale they are of.
struct Quotients {
  float scale = 0;
  int8_t q[kWeightGroup] = {};
};

float RoundedToBFloat16(float value) { return FloatFromBFloat16(BFloat16FromFloat(value)); }

// The smallest bfloat16 that is not below `value`, which is positive.
float RoundedUpToBFloat16(float value) {
  const float nearest = RoundedToBFloat16(value);
  if (nearest >= value) return nearest;
  return FloatFromBFloat16(static_cast<uint16_t>(BFloat16FromFloat(value) + 1));
}

bool IsFinite(Group weights) {
  return std::all_of(weights.begin(), weights.end(), [](float w) { return std::isfinite(w); });
}

// The weight of the largest magnitude, with its sign.
float Extreme(Group weights) {
  return *std::max_element(weights.begin(), weights.end(),
                           [](float a, float b) { return std::abs(a) < std::abs(b); });
}

Quotients QuotientsOf(Group weights, float scale, float lowest, float highest) {
  Quotients result{.scale = scale};
  // Too small a scale has no reciprocal; its weights are as good as zero.
  const float inverse = 1 / scale;
  if (!std::isfinite(inverse)) return {};
  for (int64_t i = 0; i < kWeightGroup; ++i) {
    result.q[i] =
        static_cast<int8_t>(std::nearbyint(std::clamp(weights[i] * inverse, lowest, highest)));
  }
  return result;
}

float SquaredError(Group weights, const Quotients& quotients) {
  float sum = 0;
  for (int64_t i = 0; i < kWeightGroup; ++i) {
    const float error = weights[i] - quotients.scale * static_cast<float>(quotients.q[i]);
    sum += error * error;
  }
  return sum;
}

Quotients QuantizeToInt8(Group weights) {
  const float scale = RoundedUpToBFloat16(std::abs(Extreme(weights)) / 127);
  return QuotientsOf(weights, scale, -127, 127);
}

// [-8, 7] is not symmetric, so the sign of the scale lets the extreme weight be -8; a slightly
// smaller scale often serves the other 31 better.
Quotients QuantizeToInt4(Group weights) {
  const float extreme = Extreme(weights);
  Quotients best;
  float least_error = std::numeric_limits<float>::infinity();
  for (const float steps : {8.7f, 8.4f, 8.0f, 7.6f, 7.2f, 6.8f}) {
    for (const float sign : {-1.0f, 1.0f}) {
      const Quotients tried =
          QuotientsOf(weights, RoundedToBFloat16(sign * extreme / steps), -8, 7);
      const float error = SquaredError(weights, tried);
      if (error >= least_error) continue;
      least_error = error;
      best = tried;
    }
  }
  return best;
}

void EncodeGroup(WeightFormat format, Group weights, std::byte* out) {
  const bool is_int8 = format == WeightFormat::kInt8;
  Quotients quotients;
  if (!IsFinite(weights)) {
    quotients.scale = std::numeric_limits<float>::quiet_NaN();
  } else if (Extreme(weights) != 0) {
    quotients = is_int8 ? QuantizeToInt8(weights) : QuantizeToInt4(weights);
  }
  const uint16_t scale = BFloat16FromFloat(quotients.scale);
  std::memcpy(out, &scale, sizeof(scale));
  out += sizeof(scale);
  if (is_int8) {
    std::memcpy(out, quotients.q, kWeightGroup);
    return;
  }
  for (int64_t i = 0; i < kWeightGroup / 2; ++i) {
    out[i] = static_cast<std::byte>((quotients.q[2 * i] + 8) | (quotients.q[2 * i + 1] + 8) << 4);
  }
}

void DecodeGroup(WeightFormat format, const std::byte* bytes, float* weights) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  const float scale = FloatFromBFloat16(bits);
  bytes += sizeof(bits);
  for (int64_t i = 0; i < kWeightGroup; ++i) {
    const int q = format == WeightFormat::kInt8
                      ? static_cast<int8_t>(bytes[i])
                      : (static_cast<int>(bytes[i / 2]) >> (i % 2 * 4) & 15) - 8;
    weights[i] = scale * static_cast<float>(q);
  }
}

}  // namespace

void EncodeRow(WeightFormat format, absl::Span<const float> row, absl::Span<std::byte> out) {
  const auto num_inputs = static_cast<int64_t>(row.size());
  SLUICE_CHECK(out.size() == RowBytes(format, num_inputs));
  if (format == WeightFormat::kF32) {
    std::memcpy(out.data(), row.data(), out.size());
  } else if (format == WeightFormat::kBF16) {
    auto* to = reinterpret_cast<uint16_t*>(out.data());
    std::transform(row.begin(), row.end(), to, BFloat16FromFloat);
  } else {
    SLUICE_CHECK(num_inputs % kWeightGroup == 0);
    const size_t group_bytes = RowBytes(format, kWeightGroup);
    for (int64_t group = 0; group < num_inputs / kWeightGroup; ++group) {
      EncodeGroup(format, row.subspan(group * kWeightGroup, kWeightGroup),
                  out.data() + group * group_bytes);
    }
  }
}

void DecodeRow(WeightFormat format, absl::Span<const std::byte> bytes, absl::Span<float> row) {
  const auto num_inputs = static_cast<int64_t>(row.size());
  SLUICE_CHECK(bytes.size() == RowBytes(format, num_inputs));
  if (format == WeightFormat::kF32) {
    std::memcpy(row.data(), bytes.data(), bytes.size());
  } else if (format == WeightFormat::kBF16) {
    const auto* from = reinterpret_cast<const uint16_t*>(bytes.data());
    std::transform(from, from + num_inputs, row.begin(), FloatFromBFloat16);
  } else {
    SLUICE_CHECK(num_inputs % kWeightGroup == 0);
    const size_t group_bytes = RowBytes(format, kWeightGroup);
    for (int64_t group = 0; group < num_inputs / kWeightGroup; ++group) {
      DecodeGroup(format, bytes.data() + group * group_bytes, row.data() + group * kWeightGroup);
    }
  }
}

}  // namespace sluice
