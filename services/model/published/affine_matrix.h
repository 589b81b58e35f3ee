// Matrices whose weights are scale * (q - zero point), groups of inputs sharing both: AWQ, GPTQ and
// the integers of compressed-tensors.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "services/model/published/published_matrix.h"

namespace sluice {

// Scale and zero point of a group of one output.
struct AffineGroupScale {
  float scale = 0;
  int32_t zero = 0;  // in [0, 255], as q
};

class AffineMatrix : public PublishedMatrix {
 public:
  struct Groups {
    int64_t size = 0;               // inputs that share a scale, unless group_of says otherwise
    std::vector<int32_t> group_of;  // of each input; empty: neighbours share one
  };

  absl::Status Read(const MatrixPart& part, absl::Span<float> out) const final;
  absl::Status ReadRows(const MatrixPart& part, WeightFormat format,
                        absl::Span<std::byte> out) const final;
  bool IsReadableAs(WeightFormat format) const final;

 protected:
  AffineMatrix(std::vector<PackedTensor> tensors, int bits, Groups groups)
      : PublishedMatrix(std::move(tensors)), bits_(bits), groups_(std::move(groups)) {}

  // Writes q of a part, row-major; all below 2^bits.
  virtual void ReadNumbers(const MatrixPart& part, uint8_t* numbers) const = 0;
  virtual AffineGroupScale ScaleOf(int64_t row, int64_t group) const = 0;
  // The tensor of the scales, for messages.
  virtual const PackedTensor& scales() const = 0;

 private:
  int64_t GroupOf(int64_t column) const {
    return groups_.group_of.empty() ? column / groups_.size : groups_.group_of[column];
  }
  absl::StatusOr<AffineGroupScale> CheckedScale(int64_t row, int64_t group) const;
  absl::Status ReadRow(int64_t row, const MatrixPart& part, const uint8_t* numbers,
                       float* out) const;
  absl::Status PackRow(int64_t row, const MatrixPart& part, const uint8_t* numbers,
                       const WeightFormatTraits& as, std::byte* out) const;

  const int bits_;
  const Groups groups_;
};

// The groups of a file that lists the group of each input (GPTQ's g_idx): neighbours where the list
// says so. INVALID_ARGUMENT for an index of no group.
absl::StatusOr<std::vector<int32_t>> GroupsFromList(const PackedTensor& list, int64_t num_groups,
                                                    int64_t group_size);

// Numbers of `bits` bits that run on across words: number `index` of a sequence whose word w is
// tensor word first_word + w * step. The first has the lowest bits.
inline uint32_t NumberInWords(const PackedTensor& tensor, int64_t first_word, int64_t step,
                              int64_t index, int bits) {
  const int64_t bit = index * bits;
  const int shift = static_cast<int>(bit % 32);
  uint64_t words = tensor.Word(first_word + bit / 32 * step);
  if (shift + bits > 32) {
    words |= uint64_t{tensor.Word(first_word + (bit / 32 + 1) * step)} << 32;
  }
  return static_cast<uint32_t>(words >> shift) & ((1u << bits) - 1);
}

}  // namespace sluice
