#include "services/model/published/awq.h"

#include <algorithm>

#include "services/model/published/affine_matrix.h"

namespace sluice {
namespace {

constexpr int kAwqBits = 4;
constexpr int64_t kPerWord = 8;
// Bits below the number of output n % 8.
constexpr int kShifts[kPerWord] = {0, 16, 4, 20, 8, 24, 12, 28};
// Inputs whose words stay in the first-level cache while all rows use them.
constexpr int64_t kAwqInputs = 64;

class AwqMatrix final : public AffineMatrix {
 public:
  AwqMatrix(const PackedTensor& numbers, const PackedTensor& zeros, const PackedTensor& scales,
            int64_t rows, int64_t group_size)
      : AffineMatrix({numbers, zeros, scales}, kAwqBits, {.size = group_size, .group_of = {}}),
        rows_(rows) {}

  bool IsStoredByInput() const override { return true; }

 protected:
  void ReadNumbers(const MatrixPart& part, uint8_t* numbers) const override {
    for (int64_t begin = 0; begin < part.columns; begin += kAwqInputs) {
      const int64_t end = std::min(begin + kAwqInputs, part.columns);
      for (int64_t r = 0; r < part.rows;) {
        const int64_t in_word = (part.first_row + r) % kPerWord;
        const int64_t count = std::min(kPerWord - in_word, part.rows - r);
        const int64_t word = (part.first_row + r) / kPerWord;
        for (int64_t k = begin; k < end; ++k) {
          const uint32_t eight =
              tensors()[0].Word((part.first_column + k) * (rows_ / kPerWord) + word);
          for (int64_t i = 0; i < count; ++i) {
            numbers[(r + i) * part.columns + k] =
                static_cast<uint8_t>(eight >> kShifts[in_word + i] & 15);
          }
        }
        r += count;
      }
    }
  }
  AffineGroupScale ScaleOf(int64_t row, int64_t group) const override {
    return {scales().Number(group * rows_ + row), At(tensors()[1], group, row)};
  }
  const PackedTensor& scales() const override { return tensors()[2]; }

 private:
  uint8_t At(const PackedTensor& words, int64_t line, int64_t row) const {
    const uint32_t word = words.Word(line * (rows_ / kPerWord) + row / kPerWord);
    return static_cast<uint8_t>(word >> kShifts[row % kPerWord] & 15);
  }

  const int64_t rows_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenAwq(const PackedFiles& files,
                                                         const std::string& stem, int64_t rows,
                                                         int64_t columns, int64_t group_size) {
  const int64_t words = rows / kPerWord, groups = columns / group_size;
  const auto numbers = files.Find(stem + ".qweight", {"I32"}, {{columns, words}});
  if (!numbers.ok()) return numbers.status();
  if (rows % kPerWord != 0) return numbers->Error("has outputs that are no multiple of 8");
  const auto zeros = files.Find(stem + ".qzeros", {"I32"}, {{groups, words}});
  if (!zeros.ok()) return zeros.status();
  const auto scales = files.Find(stem + ".scales", ScaleTypes(), {{groups, rows}});
  if (!scales.ok()) return scales.status();
  return std::make_unique<AwqMatrix>(*numbers, *zeros, *scales, rows, group_size);
}

}  // namespace sluice
