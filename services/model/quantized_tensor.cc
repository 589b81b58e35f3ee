#include "services/model/quantized_tensor.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/dtype.h"
#include "kernels/fp8.h"
#include "kernels/group_scale.h"

namespace sluice {
namespace {

constexpr size_t kScaleBytes = 2;

// Bytes of a group's quotients.
size_t QuotientBytes(WeightFormat format) { return RowBytes(format, kWeightGroup) - kScaleBytes; }

// Bytes of the quotients of `columns` inputs.
int64_t QuotientColumns(WeightFormat format, int64_t columns) {
  return columns / kWeightGroup * static_cast<int64_t>(QuotientBytes(format));
}

IndexRange Divided(IndexRange range, int64_t divisor) {
  return {range.begin / divisor, range.end / divisor};
}

// Whether one of the group's bytes is that of -128.
bool HasLowest(const std::byte* quotients) {
  unsigned found = 0;
  for (int64_t i = 0; i < kWeightGroup; ++i) found |= quotients[i] == std::byte{0x80} ? 1u : 0u;
  return found != 0;
}

// Whether one of the group's codes is that of no number.
bool HasNaN(const std::byte* codes) {
  constexpr std::byte kNaN{0x7f};
  unsigned found = 0;
  for (int64_t i = 0; i < kWeightGroup; ++i) found |= (codes[i] & kNaN) == kNaN ? 1u : 0u;
  return found != 0;
}

absl::Status CheckCodedScale(uint16_t bits) {
  if (IsGroupScale(bits)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("has a scale of ", FloatFromBFloat16(bits),
                                                 "; accepted: numbers up to ", kLargestGroupScale,
                                                 " with three bits of mantissa"));
}

absl::Status CheckGroup(WeightFormat format, const std::byte* quotients, const std::byte* scale) {
  uint16_t bits;
  std::memcpy(&bits, scale, kScaleBytes);
  if (format == WeightFormat::kInt6 || format == WeightFormat::kInt4) return CheckCodedScale(bits);
  if (format == WeightFormat::kInt8 && HasLowest(quotients)) {
    return absl::InvalidArgumentError("has a quotient of -128; accepted: -127 to 127");
  }
  if (format != WeightFormat::kFp8) return absl::OkStatus();
  if (HasNaN(quotients)) return absl::InvalidArgumentError("has a code of FP8 that is no number");
  const float magnitude = std::abs(FloatFromBFloat16(bits));
  if (!(magnitude > kLargestFp8Scale))
    return absl::OkStatus();  // that of no number is written, too
  return absl::InvalidArgumentError(
      absl::StrCat("has a scale of ", magnitude, "; accepted: up to ", kLargestFp8Scale));
}

}  // namespace

const char* QuotientType(WeightFormat format) {
  SLUICE_CHECK(IsQuantized(format));
  return format == WeightFormat::kInt8 ? "I8" : format == WeightFormat::kFp8 ? "F8_E4M3" : "U8";
}

MatrixShape QuotientShape(WeightFormat format, MatrixShape shape) {
  SLUICE_CHECK(IsQuantized(format));
  return {shape.rows, QuotientColumns(format, shape.columns)};
}

MatrixShape ScaleShape(MatrixShape shape) { return {shape.rows, shape.columns / kWeightGroup}; }

TensorSlice QuotientSlice(WeightFormat format, const TensorSlice& slice) {
  SLUICE_CHECK(slice.columns.begin % kWeightGroup == 0 && slice.columns.end % kWeightGroup == 0);
  return {
      slice.rows,
      {QuotientColumns(format, slice.columns.begin), QuotientColumns(format, slice.columns.end)}};
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
    if (absl::Status checked = CheckGroup(format, from, &scales[i]); !checked.ok()) return checked;
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
