#include "services/model/published_fp8.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/dtype.h"
#include "kernels/fp8.h"
#include "services/model/quantized_tensor.h"
#include "services/model/tensor_convert.h"

namespace sluice {
namespace {

constexpr char kType[] = "F8_E4M3";
constexpr const char* kSuffixes[] = {kScaleSuffix, "_scale_inv"};

// Where the scale of an element is found.
class Scales {
 public:
  static absl::StatusOr<Scales> Find(const Checkpoint& checkpoint, const std::string& name,
                                     MatrixShape matrix, MatrixShape block) {
    for (const char* suffix : kSuffixes) {
      const StoredTensor* tensor = checkpoint.Peek(absl::StrCat(name, suffix));
      if (tensor != nullptr)
        return Of(*tensor, absl::StrCat(name, suffix), matrix, block, checkpoint);
    }
    return absl::NotFoundError(absl::StrCat(checkpoint.folder(), ": tensor \"", name, kSuffixes[0],
                                            "\" or \"", name, kSuffixes[1],
                                            "\" is missing: the scales of FP8 numbers"));
  }

  // Whether another scale begins at a column.
  bool ChangesAt(int64_t column) const { return column % columns_ == 0; }

  float At(int64_t row, int64_t column) const {
    const int64_t index = row / rows_ * columns_of_scales_ + column / columns_;
    const size_t size = static_cast<size_t>(tensor_->type.size);
    float scale;
    ConvertElements(*tensor_->type.dtype, tensor_->bytes.data() + index * size, DType::kF32,
                    {reinterpret_cast<std::byte*>(&scale), sizeof(scale)});
    return scale;
  }

 private:
  static absl::StatusOr<Scales> Of(const StoredTensor& tensor, const std::string& name,
                                   MatrixShape matrix, MatrixShape block,
                                   const Checkpoint& checkpoint) {
    const MatrixShape blocks{(matrix.rows + block.rows - 1) / block.rows,
                             (matrix.columns + block.columns - 1) / block.columns};
    const auto has = [&](std::initializer_list<int64_t> shape) {
      return std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end(),
                        [](int64_t a, uint64_t b) { return static_cast<uint64_t>(a) == b; });
    };
    const auto type = tensor.type.dtype;
    const bool is_readable = type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
    if (is_readable && (has({}) || has({1}) || has({1, 1}))) {
      return Scales(tensor, matrix.rows, matrix.columns, 1);
    }
    if (is_readable && (has({matrix.rows}) || has({matrix.rows, 1}))) {
      return Scales(tensor, 1, matrix.columns, 1);
    }
    if (is_readable && has({blocks.rows, blocks.columns})) {
      return Scales(tensor, block.rows, block.columns, blocks.columns);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        checkpoint.folder(), ": tensor \"", name, "\" is ", tensor.type.name, " of shape ",
        ShapeText(tensor.shape), "; accepted: F32, F16, BF16 of shape [1], [", matrix.rows,
        ", 1] or [", blocks.rows, ", ", blocks.columns, "]"));
  }

  Scales(const StoredTensor& tensor, int64_t rows, int64_t columns, int64_t columns_of_scales)
      : tensor_(&tensor), rows_(rows), columns_(columns), columns_of_scales_(columns_of_scales) {}

  const StoredTensor* tensor_;
  int64_t rows_, columns_;     // that share a scale
  int64_t columns_of_scales_;  // side by side
};

bool HasNoNumber(absl::Span<const std::byte> codes) {
  constexpr std::byte kNaN{0x7f};
  unsigned found = 0;  // to the end, so that many are looked at together
  for (const std::byte code : codes) found |= (code & kNaN) == kNaN ? 1u : 0u;
  return found != 0;
}

absl::Status NoNumber() {
  return absl::InvalidArgumentError("has a scale that is not finite; accepted: numbers");
}

// A part of a row as numbers, from `column` on.
std::vector<float> NumbersOf(absl::Span<const std::byte> codes, const Scales& scales, int64_t row,
                             int64_t column) {
  std::vector<float> numbers;
  numbers.reserve(codes.size());
  float scale = scales.At(row, column);
  for (const std::byte code : codes) {
    if (scales.ChangesAt(column)) scale = scales.At(row, column);
    numbers.push_back(scale * FloatFromFp8(static_cast<uint8_t>(code)));
    ++column;
  }
  return numbers;
}

// The same as a row of FP8. Codes are numbers: what may be refused is a scale.
absl::Status JoinRow(absl::Span<const std::byte> codes, const Scales& scales, int64_t row,
                     int64_t column, absl::Span<std::byte> out) {
  std::vector<uint16_t> of_groups(codes.size() / kWeightGroup);
  for (size_t group = 0; group < of_groups.size(); ++group) {
    const int64_t first = column + static_cast<int64_t>(group) * kWeightGroup;
    const float scale = scales.At(row, first);
    if (!std::isfinite(scale)) return NoNumber();
    of_groups[group] = BFloat16FromFloat(scale);
  }
  const absl::Status joined =
      JoinGroups(WeightFormat::kFp8, codes,
                 {reinterpret_cast<const std::byte*>(of_groups.data()), 2 * of_groups.size()}, out);
  if (joined.ok()) return joined;
  return absl::Status(joined.code(),
                      absl::StrCat(joined.message(), "; --weights bf16 or f32 takes larger ones"));
}

}  // namespace

bool IsPublishedFp8(const Checkpoint& checkpoint, const std::string& name) {
  const StoredTensor* tensor = checkpoint.Peek(name);
  return tensor != nullptr && tensor->type.dtype == DType::kF8E4M3;
}

absl::Status CheckPublishedFp8(const Checkpoint& checkpoint, const std::string& name,
                               MatrixShape shape, MatrixShape block) {
  absl::Status found = checkpoint.FindOfType(name, shape, kType).status();
  return found.ok() ? Scales::Find(checkpoint, name, shape, block).status() : found;
}

absl::Status ReadPublishedFp8(const Checkpoint& checkpoint, const std::string& name,
                              MatrixShape shape, MatrixShape block, const TensorSlice& slice,
                              WeightFormat as, absl::Span<std::byte> out) {
  SLUICE_CHECK(as == WeightFormat::kFp8 || !IsQuantized(as));
  const auto scales = Scales::Find(checkpoint, name, shape, block);
  if (!scales.ok()) return scales.status();
  std::vector<std::byte> codes(static_cast<size_t>(slice.size()));
  absl::Status status = checkpoint.Copy(name, shape, kType, slice, absl::MakeSpan(codes));
  if (status.ok() && HasNoNumber(codes)) {
    status = absl::InvalidArgumentError("has a code of FP8 that is no number");
  }
  const auto columns = static_cast<size_t>(slice.columns.size());
  const size_t row_bytes = RowBytes(as, slice.columns.size());
  for (int64_t row = slice.rows.begin; row < slice.rows.end && status.ok(); ++row) {
    const auto of_row = absl::MakeConstSpan(codes).subspan(
        static_cast<size_t>(row - slice.rows.begin) * columns, columns);
    const auto to = out.subspan(static_cast<size_t>(row - slice.rows.begin) * row_bytes, row_bytes);
    if (as == WeightFormat::kFp8) {
      status = JoinRow(of_row, *scales, row, slice.columns.begin, to);
    } else {
      const std::vector<float> numbers = NumbersOf(of_row, *scales, row, slice.columns.begin);
      // Codes are numbers.
      if (!std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); })) {
        status = NoNumber();
      }
      EncodeRow(as, numbers, to);
    }
  }
  return status;
}

}  // namespace sluice
