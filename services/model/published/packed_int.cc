#include "services/model/published/packed_int.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/model/published/affine_matrix.h"

namespace sluice {
namespace {

class PackedIntMatrix final : public AffineMatrix {
 public:
  // Zero points, where there are any, come third among the tensors.
  PackedIntMatrix(std::vector<PackedTensor> tensors, int64_t columns, int bits, bool symmetric,
                  Groups groups, int64_t num_groups)
      : AffineMatrix(std::move(tensors), bits, std::move(groups)),
        words_(columns * bits / 32),
        num_groups_(num_groups),
        bits_(bits),
        symmetric_(symmetric) {}

 protected:
  void ReadNumbers(const MatrixPart& part, uint8_t* numbers) const override {
    const int64_t per_word = 32 / bits_;
    const uint32_t highest = (1u << bits_) - 1;
    for (int64_t r = 0; r < part.rows; ++r) {
      uint32_t word = 0;
      for (int64_t i = 0; i < part.columns; ++i) {
        const int64_t k = part.first_column + i;
        if (i == 0 || k % per_word == 0) {
          word = tensors()[0].Word((part.first_row + r) * words_ + k / per_word);
        }
        *numbers++ = static_cast<uint8_t>(word >> (k % per_word * bits_) & highest);
      }
    }
  }
  AffineGroupScale ScaleOf(int64_t row, int64_t group) const override {
    const float scale = scales().Number(row * num_groups_ + group);
    if (symmetric_) return {scale, 1 << (bits_ - 1)};
    return {scale,
            static_cast<int32_t>(NumberInWords(tensors()[2], group, num_groups_, row, bits_))};
  }
  const PackedTensor& scales() const override { return tensors()[1]; }

 private:
  const int64_t words_;  // of a row
  const int64_t num_groups_;
  const int bits_;
  const bool symmetric_;
};

absl::Status CheckStoredShape(const PackedFiles& files, const std::string& name, int64_t rows,
                              int64_t columns) {
  const auto shape = files.Find(name, {"I64", "I32"}, {{2}});
  if (!shape.ok()) return shape.status();
  if (shape->Integer(0) == rows && shape->Integer(1) == columns) return absl::OkStatus();
  return shape->Error(absl::StrCat("says [", shape->Integer(0), ", ", shape->Integer(1),
                                   "]; accepted: [", rows, ", ", columns,
                                   "], as config.json has it"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenPackedInt(const PackedFiles& files,
                                                               const std::string& stem,
                                                               int64_t rows, int64_t columns,
                                                               const PublishedScheme& scheme) {
  const int bits = scheme.bits;
  const int64_t num_groups = columns / scheme.group_size;
  const auto numbers = files.Find(stem + ".weight_packed", {"I32"}, {{rows, columns * bits / 32}});
  if (!numbers.ok()) return numbers.status();
  if (columns * bits % 32 != 0) {
    return numbers->Error(absl::StrCat("is of a matrix of ", columns,
                                       " inputs; accepted: whole words of ", bits, " bits"));
  }
  absl::Status shape = CheckStoredShape(files, stem + ".weight_shape", rows, columns);
  if (!shape.ok()) return shape;
  const auto scales = files.Find(stem + ".weight_scale", ScaleTypes(), {{rows, num_groups}});
  if (!scales.ok()) return scales.status();
  std::vector<PackedTensor> tensors = {*numbers, *scales};
  if (!scheme.symmetric) {
    const auto zeros =
        files.Find(stem + ".weight_zero_point", {"I32"}, {{rows * bits / 32, num_groups}});
    if (!zeros.ok()) return zeros.status();
    if (rows * bits % 32 != 0) return zeros->Error("is of outputs that are no whole words");
    tensors.push_back(*zeros);
  }
  PackedIntMatrix::Groups groups{.size = scheme.group_size, .group_of = {}};
  if (files.Has(stem + ".weight_g_idx") || scheme.is_ordered) {
    const auto list = files.Find(stem + ".weight_g_idx", {"I32"}, {{columns}});
    if (!list.ok()) return list.status();
    auto group_of = GroupsFromList(*list, num_groups, scheme.group_size);
    if (!group_of.ok()) return group_of.status();
    groups.group_of = *std::move(group_of);
    tensors.push_back(*list);
  }
  return std::make_unique<PackedIntMatrix>(std::move(tensors), columns, bits, scheme.symmetric,
                                           std::move(groups), num_groups);
}

}  // namespace sluice
