#include "services/model/quantized_tensor.h"

#include <cstring>

#include "kernels/check.h"

namespace sluice {
namespace {

constexpr size_t kScaleBytes = 2;

// Bytes of a group's quotients.
size_t QuotientBytes(WeightFormat format) { return RowBytes(format, kWeightGroup) - kScaleBytes; }

IndexRange Divided(IndexRange range, int64_t divisor) {
  return {range.begin / divisor, range.end / divisor};
}

// Whether one of the group's bytes is that of -128.
bool HasLowest(const std::byte* quotients) {
  unsigned found = 0;
  for (int64_t i = 0; i < kWeightGroup; ++i) found |= quotients[i] == std::byte{0x80} ? 1u : 0u;
  return found != 0;
}

}  // namespace

const char* QuotientType(WeightFormat format) {
  SLUICE_CHECK(IsQuantized(format));
  return format == WeightFormat::kInt8 ? "I8" : "U8";
}

MatrixShape QuotientShape(WeightFormat format, MatrixShape shape) {
  SLUICE_CHECK(IsQuantized(format));
  return {shape.rows, format == WeightFormat::kInt8 ? shape.columns : shape.columns / 2};
}

MatrixShape ScaleShape(MatrixShape shape) { return {shape.rows, shape.columns / kWeightGroup}; }

TensorSlice QuotientSlice(WeightFormat format, const TensorSlice& slice) {
  SLUICE_CHECK(slice.columns.begin % kWeightGroup == 0 && slice.columns.end % kWeightGroup == 0);
  return {slice.rows, Divided(slice.columns, format == WeightFormat::kInt8 ? 1 : 2)};
}

TensorSlice ScaleSlice(const TensorSlice& slice) {
  return {slice.rows, Divided(slice.columns, kWeightGroup)};
}

absl::Status JoinGroups(WeightFormat format, absl::Span<const std::byte> quotients,
                        absl::Span<const std::byte> scales, absl::Span<std::byte> out) {
  SLUICE_CHECK(out.size() == quotients.size() + scales.size());
  const size_t bytes = QuotientBytes(format);
  const std::byte* from = quotients.data();
  std::byte* to = out.data();
  for (size_t i = 0; i < scales.size(); i += kScaleBytes) {
    std::memcpy(to, &scales[i], kScaleBytes);
    std::memcpy(to + kScaleBytes, from, bytes);
    if (format == WeightFormat::kInt8 && HasLowest(from)) {
      return absl::InvalidArgumentError("has a quotient of -128; accepted: -127 to 127");
    }
    from += bytes;
    to += kScaleBytes + bytes;
  }
  return absl::OkStatus();
}

void SplitGroups(WeightFormat format, absl::Span<const std::byte> rows,
                 absl::Span<std::byte> quotients, absl::Span<std::byte> scales) {
  SLUICE_CHECK(rows.size() == quotients.size() + scales.size());
  const size_t bytes = QuotientBytes(format);
  const std::byte* from = rows.data();
  std::byte* to = quotients.data();
  for (size_t i = 0; i < scales.size(); i += kScaleBytes) {
    std::memcpy(&scales[i], from, kScaleBytes);
    std::memcpy(to, from + kScaleBytes, bytes);
    from += kScaleBytes + bytes;
    to += bytes;
  }
}

}  // namespace sluice
