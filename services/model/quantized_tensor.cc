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
size_t QuotientBytes(WeightFormat format) {
  return static_cast<size_t>(TraitsOf(format).group_bytes) - kScaleBytes;
}

// Bytes of the quotients of `columns` inputs.
int64_t QuotientColumns(WeightFormat format, int64_t columns) {
  return columns / TraitsOf(format).group * static_cast<int64_t>(QuotientBytes(format));
}

IndexRange Divided(IndexRange range, int64_t divisor) {
  return {range.begin / divisor, range.end / divisor};
}

// Whether one of the group's bytes is that of -128.
bool HasLowest(absl::Span<const std::byte> quotients) {
  unsigned found = 0;
  for (const std::byte quotient : quotients) found |= quotient == std::byte{0x80} ? 1u : 0u;
  return found != 0;
}

// Whether one of the group's codes is that of no number.
bool HasNaN(absl::Span<const std::byte> codes) {
  constexpr std::byte kNaN{0x7f};
  unsigned found = 0;
  for (const std::byte code : codes) found |= (code & kNaN) == kNaN ? 1u : 0u;
  return found != 0;
}

absl::Status CheckCodedScale(uint16_t bits) {
  if (IsGroupScale(bits)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("has a scale of ", FloatFromBFloat16(bits),
                                                 "; accepted: numbers up to ", kLargestGroupScale,
                                                 " with three bits of mantissa"));
}

absl::Status CheckFp8Scale(uint16_t bits) {
  const float magnitude = std::abs(FloatFromBFloat16(bits));
  // That of no number is written, too.
  if (!(magnitude > kLargestFp8Scale)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("has a scale of ", magnitude, "; accepted: up to ", kLargestFp8Scale));
}

absl::Status CheckCodes(WeightCodes codes, absl::Span<const std::byte> quotients) {
  if (codes == WeightCodes::kSigned && HasLowest(quotients)) {
    return absl::InvalidArgumentError("has a quotient of -128; accepted: -127 to 127");
  }
  if (codes == WeightCodes::kFp8 && HasNaN(quotients)) {
    return absl::InvalidArgumentError("has a code of FP8 that is no number");
  }
  return absl::OkStatus();
}

absl::Status CheckScale(WeightScales scales, const std::byte* scale) {
  uint16_t bits;
  std::memcpy(&bits, scale, kScaleBytes);
  if (scales == WeightScales::kCoded) return CheckCodedScale(bits);
  return scales == WeightScales::kFp8 ? CheckFp8Scale(bits) : absl::OkStatus();
}

absl::Status CheckGroup(const WeightFormatTraits& traits, absl::Span<const std::byte> quotients,
                        const std::byte* scale) {
  absl::Status checked = CheckCodes(traits.codes, quotients);
  return checked.ok() ? CheckScale(traits.scales, scale) : checked;
}

}  // namespace

const char* QuotientType(WeightFormat format) {
  SLUICE_CHECK(IsQuantized(format));
  switch (TraitsOf(format).codes) {
    case WeightCodes::kSigned:
      return "I8";
    case WeightCodes::kFp8:
      return "F8_E4M3";
    default:
      return "U8";
  }
}

MatrixShape QuotientShape(WeightFormat format, MatrixShape shape) {
  SLUICE_CHECK(IsQuantized(format));
  return {shape.rows, QuotientColumns(format, shape.columns)};
}

MatrixShape ScaleShape(WeightFormat format, MatrixShape shape) {
  return {shape.rows, shape.columns / TraitsOf(format).group};
}

TensorSlice QuotientSlice(WeightFormat format, const TensorSlice& slice) {
  const int64_t group = TraitsOf(format).group;
  SLUICE_CHECK(slice.columns.begin % group == 0 && slice.columns.end % group == 0);
  return {
      slice.rows,
      {QuotientColumns(format, slice.columns.begin), QuotientColumns(format, slice.columns.end)}};
}

TensorSlice ScaleSlice(WeightFormat format, const TensorSlice& slice) {
  return {slice.rows, Divided(slice.columns, TraitsOf(format).group)};
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
    absl::Status checked = CheckGroup(TraitsOf(format), {from, bytes}, &scales[i]);
    if (!checked.ok()) return checked;
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
