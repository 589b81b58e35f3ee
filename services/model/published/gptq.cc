#include "services/model/published/gptq.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/model/published/affine_matrix.h"

namespace sluice {
namespace {

// Inputs whose words stay in the first-level cache while all rows use them.
constexpr int64_t kGptqInputs = 256;

class GptqMatrix final : public AffineMatrix {
 public:
  GptqMatrix(std::vector<PackedTensor> tensors, int64_t rows, int bits, int zero_offset,
             Groups groups)
      : AffineMatrix(std::move(tensors), bits, std::move(groups)),
        rows_(rows),
        bits_(bits),
        zero_offset_(static_cast<uint32_t>(zero_offset)) {}

  bool IsStoredByInput() const override { return true; }

 protected:
  void ReadNumbers(const MatrixPart& part, uint8_t* numbers) const override {
    for (int64_t begin = 0; begin < part.columns; begin += kGptqInputs) {
      const int64_t end = std::min(begin + kGptqInputs, part.columns);
      for (int64_t r = 0; r < part.rows; ++r) {
        ReadColumn(part.first_row + r, part.first_column + begin, end - begin,
                   numbers + r * part.columns + begin);
      }
    }
  }
  AffineGroupScale ScaleOf(int64_t row, int64_t group) const override {
    const uint32_t zero = NumberInWords(tensors()[1], group * (rows_ * bits_ / 32), 1, row, bits_);
    const uint32_t highest = (1u << bits_) - 1;
    return {scales().Number(group * rows_ + row),
            static_cast<int32_t>((zero + zero_offset_) & highest)};
  }
  const PackedTensor& scales() const override { return tensors()[2]; }

 private:
  // Numbers of one output, from input `first` on.
  void ReadColumn(int64_t row, int64_t first, int64_t count, uint8_t* numbers) const {
    const PackedTensor& words = tensors()[0];
    const int64_t per_word = 32 / bits_;
    if (32 % bits_ != 0 || first % per_word != 0 || count % per_word != 0) {
      for (int64_t i = 0; i < count; ++i) {
        numbers[i] = static_cast<uint8_t>(NumberInWords(words, row, rows_, first + i, bits_));
      }
      return;
    }
    const uint32_t highest = (1u << bits_) - 1;
    for (int64_t i = 0; i < count; i += per_word) {
      const uint32_t word = words.Word((first + i) / per_word * rows_ + row);
      for (int64_t j = 0; j < per_word; ++j) {
        numbers[i + j] = static_cast<uint8_t>(word >> (j * bits_) & highest);
      }
    }
  }

  const int64_t rows_;
  const int bits_;
  const uint32_t zero_offset_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenGptq(const PackedFiles& files,
                                                          const std::string& stem, int64_t rows,
                                                          int64_t columns,
                                                          const PublishedScheme& scheme) {
  const int bits = scheme.bits;
  const int64_t group_size = scheme.group_size, groups = columns / group_size;
  const auto numbers = files.Find(stem + ".qweight", {"I32"}, {{columns * bits / 32, rows}});
  if (!numbers.ok()) return numbers.status();
  if (rows * bits % 32 != 0 || columns * bits % 32 != 0) {
    return numbers->Error(absl::StrCat("is of a matrix of ", rows, " outputs and ", columns,
                                       " inputs; accepted: whole words of ", bits, " bits"));
  }
  const auto zeros = files.Find(stem + ".qzeros", {"I32"}, {{groups, rows * bits / 32}});
  if (!zeros.ok()) return zeros.status();
  const auto scales = files.Find(stem + ".scales", ScaleTypes(), {{groups, rows}});
  if (!scales.ok()) return scales.status();
  std::vector<PackedTensor> tensors = {*numbers, *zeros, *scales};
  std::vector<int32_t> group_of;
  if (files.Has(stem + ".g_idx") || scheme.is_ordered) {
    const auto list = files.Find(stem + ".g_idx", {"I32"}, {{columns}});
    if (!list.ok()) return list.status();
    auto found = GroupsFromList(*list, groups, group_size);
    if (!found.ok()) return found.status();
    group_of = *std::move(found);
    tensors.push_back(*list);
  }
  return std::make_unique<GptqMatrix>(
      std::move(tensors), rows, bits, scheme.zero_offset,
      GptqMatrix::Groups{.size = group_size, .group_of = std::move(group_of)});
}

}  // namespace sluice
