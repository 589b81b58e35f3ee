#include "services/model/published/plain_int.h"

#include <utility>

#include "services/model/published/affine_matrix.h"

namespace sluice {
namespace {

constexpr int kPlainIntBits = 8;
constexpr int kPlainIntMiddle = 128;  // makes numbers unsigned

class PlainIntMatrix final : public AffineMatrix {
 public:
  // Zero points, where there are any, come third among the tensors.
  PlainIntMatrix(std::vector<PackedTensor> tensors, int64_t columns, int64_t group_size)
      : AffineMatrix(std::move(tensors), kPlainIntBits, {.size = group_size, .group_of = {}}),
        columns_(columns),
        num_groups_(columns / group_size) {}

 protected:
  void ReadNumbers(const MatrixPart& part, uint8_t* numbers) const override {
    for (int64_t r = 0; r < part.rows; ++r) {
      const std::byte* const from =
          tensors()[0].bytes.data() + (part.first_row + r) * columns_ + part.first_column;
      for (int64_t k = 0; k < part.columns; ++k) {
        *numbers++ = static_cast<uint8_t>(static_cast<int>(from[k]) ^ kPlainIntMiddle);
      }
    }
  }
  AffineGroupScale ScaleOf(int64_t row, int64_t group) const override {
    const bool is_one = scales().shape.size() == 1;
    const int64_t index = is_one ? 0 : row * num_groups_ + group;
    const int zero = tensors().size() > 2 ? static_cast<int>(tensors()[2].bytes[index]) : 0;
    return {scales().Number(index), zero ^ kPlainIntMiddle};
  }
  const PackedTensor& scales() const override { return tensors()[1]; }

 private:
  const int64_t columns_, num_groups_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenPlainInt(const PackedFiles& files,
                                                              const std::string& stem, int64_t rows,
                                                              int64_t columns,
                                                              const PublishedScheme& scheme) {
  const int64_t num_groups = columns / scheme.group_size;
  const auto numbers = files.Find(stem + ".weight", {"I8"}, {{rows, columns}});
  if (!numbers.ok()) return numbers.status();
  const bool may_be_one = num_groups == 1;
  const std::vector<int64_t> of_outputs = {rows, num_groups};
  const std::vector<int64_t> one = may_be_one ? std::vector<int64_t>{1} : of_outputs;
  const auto scales = files.Find(stem + ".weight_scale", ScaleTypes(), {of_outputs, one});
  if (!scales.ok()) return scales.status();
  std::vector<PackedTensor> tensors = {*numbers, *scales};
  if (!scheme.symmetric) {
    const bool is_one = scales->shape.size() == 1;
    const auto zeros = files.Find(stem + ".weight_zero_point", {"I8"}, {is_one ? one : of_outputs});
    if (!zeros.ok()) return zeros.status();
    tensors.push_back(*zeros);
  }
  return std::make_unique<PlainIntMatrix>(std::move(tensors), columns, scheme.group_size);
}

}  // namespace sluice
