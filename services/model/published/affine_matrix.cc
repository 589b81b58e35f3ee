#include "services/model/published/affine_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/affine_word.h"
#include "kernels/check.h"

namespace sluice {
namespace {

// Rows whose numbers are read together.
constexpr int64_t kRowsAtATime = 128;

// Calls read(part of some rows, its numbers, its first row counted from that of `part`).
template <class Function>
absl::Status ForRows(const MatrixPart& part, std::vector<uint8_t>& numbers,
                     const Function& function) {
  for (int64_t done = 0; done < part.rows; done += kRowsAtATime) {
    MatrixPart some = part;
    some.first_row += done;
    some.rows = std::min(kRowsAtATime, part.rows - done);
    numbers.resize(static_cast<size_t>(some.rows * some.columns));
    if (absl::Status read = function(some, done); !read.ok()) return read;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AffineGroupScale> AffineMatrix::CheckedScale(int64_t row, int64_t group) const {
  const AffineGroupScale found = ScaleOf(row, group);
  if (std::isfinite(found.scale)) return found;
  return scales().Error("has a scale that is not finite; accepted: numbers");
}

absl::Status AffineMatrix::ReadRow(int64_t row, const MatrixPart& part, const uint8_t* numbers,
                                   float* out) const {
  int64_t current = -1;
  AffineGroupScale of;
  for (int64_t i = 0; i < part.columns; ++i) {
    if (const int64_t group = GroupOf(part.first_column + i); group != current) {
      const auto found = CheckedScale(row, group);
      if (!found.ok()) return found.status();
      of = *found;
      current = group;
    }
    out[i] = of.scale * static_cast<float>(static_cast<int32_t>(numbers[i]) - of.zero);
  }
  return absl::OkStatus();
}

absl::Status AffineMatrix::PackRow(int64_t row, const MatrixPart& part, const uint8_t* numbers,
                                   const WeightFormatTraits& as, std::byte* out) const {
  for (int64_t i = 0; i < part.columns; i += as.group, numbers += as.group) {
    const auto of = CheckedScale(row, GroupOf(part.first_column + i));
    if (!of.ok()) return of.status();
    const uint32_t word = AffineWord(of->scale, static_cast<uint32_t>(of->zero));
    std::memcpy(out, &word, sizeof(word));
    std::byte* to = out + sizeof(word);
    out += as.group_bytes;
    if (as.bits == 8) {
      std::memcpy(to, numbers, static_cast<size_t>(as.group));
      continue;
    }
    for (int64_t k = 0; k < as.group; k += 2) {
      *to++ = static_cast<std::byte>(numbers[k] | numbers[k + 1] << 4);
    }
  }
  return absl::OkStatus();
}

absl::Status AffineMatrix::Read(const MatrixPart& part, absl::Span<float> out) const {
  SLUICE_CHECK(static_cast<int64_t>(out.size()) == part.rows * part.columns);
  std::vector<uint8_t> numbers;
  return ForRows(part, numbers, [&](const MatrixPart& some, int64_t first) {
    ReadNumbers(some, numbers.data());
    absl::Status status;
    for (int64_t r = 0; r < some.rows && status.ok(); ++r) {
      status = ReadRow(some.first_row + r, some, &numbers[r * some.columns],
                       out.data() + (first + r) * some.columns);
    }
    return status;
  });
}

absl::Status AffineMatrix::ReadRows(const MatrixPart& part, WeightFormat format,
                                    absl::Span<std::byte> out) const {
  SLUICE_CHECK(IsReadableAs(format));
  const WeightFormatTraits& as = TraitsOf(format);
  SLUICE_CHECK(part.first_column % as.group == 0 && part.columns % as.group == 0);
  const auto row_bytes = static_cast<int64_t>(RowBytes(format, part.columns));
  SLUICE_CHECK(static_cast<int64_t>(out.size()) == part.rows * row_bytes);
  std::vector<uint8_t> numbers;
  return ForRows(part, numbers, [&](const MatrixPart& some, int64_t first) {
    ReadNumbers(some, numbers.data());
    absl::Status status;
    for (int64_t r = 0; r < some.rows && status.ok(); ++r) {
      status = PackRow(some.first_row + r, some, &numbers[r * some.columns], as,
                       out.data() + (first + r) * row_bytes);
    }
    return status;
  });
}

// Every number and zero point has to fit, and every group of the format to have one scale.
bool AffineMatrix::IsReadableAs(WeightFormat format) const {
  const WeightFormatTraits& traits = TraitsOf(format);
  return HasZeroPoints(format) && bits_ <= traits.bits && groups_.group_of.empty() &&
         groups_.size % traits.group == 0;
}

absl::StatusOr<std::vector<int32_t>> GroupsFromList(const PackedTensor& list, int64_t num_groups,
                                                    int64_t group_size) {
  std::vector<int32_t> groups(list.shape[0]);
  bool are_neighbours = true;
  for (size_t i = 0; i < groups.size(); ++i) {
    const int64_t group = list.Integer(static_cast<int64_t>(i));
    if (group < 0 || group >= num_groups) {
      return list.Error(absl::StrCat("puts input ", i, " into group ", group, "; accepted: 0 to ",
                                     num_groups - 1));
    }
    groups[i] = static_cast<int32_t>(group);
    are_neighbours = are_neighbours && group == static_cast<int64_t>(i) / group_size;
  }
  if (are_neighbours) groups.clear();
  return groups;
}

}  // namespace sluice
