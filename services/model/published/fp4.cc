#include "services/model/published/fp4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/affine_word.h"
#include "kernels/check.h"
#include "kernels/fp4.h"
#include "kernels/fp8.h"

namespace sluice {
namespace {

// Twice the magnitude of the largest, which makes numbers unsigned: number = (q - kFp4Zero) / 2.
constexpr int kFp4Zero = 12;
// By the code: q.
constexpr auto kFp4Unsigned = [] {
  std::array<std::byte, 16> unsigned_numbers{};
  for (int code = 0; code < 16; ++code) {
    unsigned_numbers[code] =
        static_cast<std::byte>(kFp4Zero + static_cast<int>(2 * kFp4Numbers[code]));
  }
  return unsigned_numbers;
}();

class Fp4Matrix : public PublishedMatrix {
 public:
  absl::Status Read(const MatrixPart& part, absl::Span<float> out) const final;
  absl::Status ReadRows(const MatrixPart& part, WeightFormat format,
                        absl::Span<std::byte> out) const override;
  // Whole rows of codes and scales.
  std::vector<absl::Span<const std::byte>> BytesOf(const MatrixPart& part) const final {
    if (part.rows == 0) return {};
    const int64_t rows = (part.rows - 1) * part.row_step + 1;
    const auto of_rows = [&](absl::Span<const std::byte> all, int64_t row_bytes) {
      return all.subspan(part.first_row * row_bytes, rows * row_bytes);
    };
    return {of_rows(tensors()[0].bytes, columns_ / 2),
            of_rows(tensors()[1].bytes, columns_ / group_)};
  }

  // Twice a number is a whole one of five bits.
  bool IsReadableAs(WeightFormat format) const override {
    const WeightFormatTraits& traits = TraitsOf(format);
    return HasZeroPoints(format) && traits.bits == 8 && group_ % traits.group == 0;
  }

 protected:
  Fp4Matrix(std::vector<PackedTensor> tensors, int64_t columns, int64_t group)
      : PublishedMatrix(std::move(tensors)), columns_(columns), group_(group) {}

  virtual float ScaleOf(int64_t index) const = 0;
  // Of the group of a column, in all scales.
  int64_t ScaleIndex(int64_t row, int64_t column) const {
    return row * (columns_ / group_) + column / group_;
  }
  absl::StatusOr<float> CheckedScale(int64_t row, int64_t column) const {
    const float scale = ScaleOf(ScaleIndex(row, column));
    if (std::isfinite(scale)) return scale;
    return tensors()[1].Error("has a scale that is no number; accepted: numbers");
  }
  const std::byte* CodesOf(int64_t row, int64_t column) const {
    return tensors()[0].bytes.data() + (row * columns_ + column) / 2;
  }

 private:
  float NumberAt(int64_t row, int64_t column) const {
    return kFp4Numbers[static_cast<int>(*CodesOf(row, column)) >> (column % 2 * 4) & 15];
  }

  const int64_t columns_, group_;
};

absl::Status Fp4Matrix::Read(const MatrixPart& part, absl::Span<float> out) const {
  float* to = out.data();
  for (int64_t r = 0; r < part.rows; ++r) {
    const int64_t row = part.first_row + r * part.row_step;
    const int64_t end = part.first_column + part.columns;
    for (int64_t column = part.first_column; column < end;) {
      const int64_t count = std::min(group_ - column % group_, end - column);
      const auto scale = CheckedScale(row, column);
      if (!scale.ok()) return scale.status();
      if (column % 2 == 0 && count % 2 == 0) {
        DecodeFp4(CodesOf(row, column), count, *scale, to);
      } else {
        for (int64_t i = 0; i < count; ++i) to[i] = NumberAt(row, column + i) * *scale;
      }
      to += count;
      column += count;
    }
  }
  return absl::OkStatus();
}

absl::Status Fp4Matrix::ReadRows(const MatrixPart& part, WeightFormat format,
                                 absl::Span<std::byte> out) const {
  SLUICE_CHECK(IsReadableAs(format));
  const int64_t group = TraitsOf(format).group;
  std::byte* to = out.data();
  for (int64_t r = 0; r < part.rows; ++r) {
    const int64_t row = part.first_row + r * part.row_step;
    for (int64_t i = 0; i < part.columns; i += group) {
      const int64_t column = part.first_column + i;
      const auto scale = CheckedScale(row, column);
      if (!scale.ok()) return scale.status();
      const uint32_t word = AffineWord(*scale / 2, kFp4Zero);
      std::memcpy(to, &word, sizeof(word));
      to += sizeof(word);
      const std::byte* codes = CodesOf(row, column);
      for (int64_t k = 0; k < group; k += 2, ++codes) {
        *to++ = kFp4Unsigned[static_cast<int>(*codes & std::byte{15})];
        *to++ = kFp4Unsigned[static_cast<int>(*codes >> 4)];
      }
    }
  }
  return absl::OkStatus();
}

class NvFp4Matrix final : public Fp4Matrix {
 public:
  NvFp4Matrix(std::vector<PackedTensor> tensors, int64_t columns)
      : Fp4Matrix(std::move(tensors), columns, kNvFp4Group),
        divisor_(this->tensors()[2].Number(0)) {}

 protected:
  float ScaleOf(int64_t index) const override {
    const auto code = static_cast<uint8_t>(tensors()[1].bytes[index]);
    return (code & 0x7f) == 0x7f ? NAN : FloatFromFp8(code) / divisor_;
  }

 private:
  const float divisor_;
};

class MxFp4Matrix final : public Fp4Matrix {
 public:
  MxFp4Matrix(std::vector<PackedTensor> tensors, int64_t columns)
      : Fp4Matrix(std::move(tensors), columns, kMxFp4Group) {}

  bool IsReadableAs(WeightFormat format) const override {
    return format == WeightFormat::kMxFp4 || Fp4Matrix::IsReadableAs(format);
  }
  absl::Status ReadRows(const MatrixPart& part, WeightFormat format,
                        absl::Span<std::byte> out) const override;

 protected:
  float ScaleOf(int64_t index) const override {
    return Fp4BlockScale(static_cast<uint8_t>(tensors()[1].bytes[index]));
  }
};

// The file's own bytes, each scale before its codes.
absl::Status MxFp4Matrix::ReadRows(const MatrixPart& part, WeightFormat format,
                                   absl::Span<std::byte> out) const {
  if (format != WeightFormat::kMxFp4) return Fp4Matrix::ReadRows(part, format, out);
  SLUICE_CHECK(part.first_column % kMxFp4Group == 0 && part.columns % kMxFp4Group == 0);
  std::byte* to = out.data();
  for (int64_t r = 0; r < part.rows; ++r) {
    const int64_t row = part.first_row + r * part.row_step;
    for (int64_t i = 0; i < part.columns; i += kMxFp4Group) {
      const int64_t column = part.first_column + i;
      const auto scale = CheckedScale(row, column);
      if (!scale.ok()) return scale.status();
      *to++ = tensors()[1].bytes[ScaleIndex(row, column)];
      to = std::copy_n(CodesOf(row, column), kMxFp4Group / 2, to);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWholeGroups(const PackedTensor& codes, int64_t columns, int64_t group) {
  if (columns % group == 0) return absl::OkStatus();
  return codes.Error(
      absl::StrCat("is of a matrix of ", columns, " inputs; accepted: multiples of ", group));
}

}  // namespace

void DecodeFp4(const std::byte* codes, int64_t count, float scale, float* out) {
  for (int64_t i = 0; i < count; i += 2, ++codes) {
    *out++ = kFp4Numbers[static_cast<int>(*codes & std::byte{15})] * scale;
    *out++ = kFp4Numbers[static_cast<int>(*codes >> 4)] * scale;
  }
}

absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenNvFp4(const PackedFiles& files,
                                                           const std::string& stem, int64_t rows,
                                                           int64_t columns) {
  const auto codes = files.Find(stem + ".weight_packed", {"U8"}, {{rows, columns / 2}});
  if (!codes.ok()) return codes.status();
  absl::Status whole = CheckWholeGroups(*codes, columns, kNvFp4Group);
  if (!whole.ok()) return whole;
  const auto scales =
      files.Find(stem + ".weight_scale", {"F8_E4M3"}, {{rows, columns / kNvFp4Group}});
  if (!scales.ok()) return scales.status();
  const auto divisor = files.Find(stem + ".weight_global_scale", {"F32"}, {{1}, {}});
  if (!divisor.ok()) return divisor.status();
  if (!(divisor->Number(0) > 0) || !std::isfinite(divisor->Number(0))) {
    return divisor->Error(absl::StrCat("is ", divisor->Number(0), "; accepted: above 0"));
  }
  return std::make_unique<NvFp4Matrix>(std::vector{*codes, *scales, *divisor}, columns);
}

absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenMxFp4(const PackedFiles& files,
                                                           const std::string& stem, int64_t rows,
                                                           int64_t columns) {
  const auto codes = files.Find(stem + ".weight_packed", {"U8"}, {{rows, columns / 2}});
  if (!codes.ok()) return codes.status();
  absl::Status whole = CheckWholeGroups(*codes, columns, kMxFp4Group);
  if (!whole.ok()) return whole;
  const auto scales =
      files.Find(stem + ".weight_scale", {"U8", "F8_E8M0"}, {{rows, columns / kMxFp4Group}});
  if (!scales.ok()) return scales.status();
  return std::make_unique<MxFp4Matrix>(std::vector{*codes, *scales}, columns);
}

absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenMxFp4Stack(const PackedFiles& files,
                                                                const std::string& name,
                                                                int64_t rows, int64_t columns,
                                                                int64_t matrices) {
  SLUICE_CHECK(matrices >= 1 && rows % matrices == 0);
  const int64_t of_one = rows / matrices, groups = columns / kMxFp4Group;
  const auto codes =
      files.Find(name + kFp4BlocksSuffix, {"U8"}, {{matrices, of_one, groups, kMxFp4Group / 2}});
  if (!codes.ok()) return codes.status();
  absl::Status whole = CheckWholeGroups(*codes, columns, kMxFp4Group);
  if (!whole.ok()) return whole;
  const auto scales =
      files.Find(name + kFp4ScalesSuffix, {"U8", "F8_E8M0"}, {{matrices, of_one, groups}});
  if (!scales.ok()) return scales.status();
  return std::make_unique<MxFp4Matrix>(std::vector{*codes, *scales}, columns);
}

}  // namespace sluice
