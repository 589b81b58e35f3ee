// One quantised matrix of a file that Sluice did not write, whatever its layout. Immutable, so safe
// to share among threads; borrows the memory of the files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/weight_format.h"
#include "services/model/published/packed_tensor.h"
#include "services/model/published/scheme.h"

namespace sluice {

// A rectangle of a matrix [outputs, inputs], or of every row_step-th row of one.
struct MatrixPart {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_column = 0;
  int64_t columns = 0;
  int64_t row_step = 1;  // above 1 of matrices that are stacked alone
};

class PublishedMatrix {
 public:
  // Whether the files hold the matrix `name`, such as "model.layers.0.mlp.up_proj.weight", in the
  // scheme's layout, good or bad. False of layouts that other code reads: kFp8.
  static bool IsIn(const PackedFiles& files, const std::string& name,
                   const PublishedScheme& scheme);

  // The matrix [rows, columns], with all that is stored of it checked but for what Read checks.
  // `matrices`: how many equal ones it is, one below the other, where the files stack them; else 0.
  // NOT_FOUND or INVALID_ARGUMENT with file, tensor and what is accepted. REQUIRES: IsIn().
  static absl::StatusOr<std::unique_ptr<PublishedMatrix>> Open(const PackedFiles& files,
                                                               const std::string& name,
                                                               int64_t rows, int64_t columns,
                                                               const PublishedScheme& scheme,
                                                               int64_t matrices = 0);
  virtual ~PublishedMatrix() = default;

  // Writes the weights of a part, rows one after another. INVALID_ARGUMENT where a scale is not
  // finite. REQUIRES: the part lies within the matrix, `out` has its size.
  virtual absl::Status Read(const MatrixPart& part, absl::Span<float> out) const = 0;

  // The same as rows of a format with zero points, scales as AffineWord rounds them.
  // REQUIRES: IsReadableAs(format); columns begin and end at multiples of the format's group.
  virtual absl::Status ReadRows(const MatrixPart& part, WeightFormat format,
                                absl::Span<std::byte> out) const;
  // Whether the numbers, scales and zero points of the matrix are those of such a format.
  virtual bool IsReadableAs(WeightFormat) const { return false; }

  // Whether each input's weights of all outputs are neighbours, so that reading a few rows at a
  // time is slow.
  virtual bool IsStoredByInput() const { return false; }
  // All of the stored tensors, and their bytes.
  const std::vector<PackedTensor>& tensors() const { return tensors_; }
  uint64_t num_bytes() const;
  // The bytes that reading a part touches, as runs: all of them, unless a layout knows better.
  virtual std::vector<absl::Span<const std::byte>> BytesOf(const MatrixPart& part) const;

 protected:
  explicit PublishedMatrix(std::vector<PackedTensor> tensors) : tensors_(std::move(tensors)) {}

 private:
  std::vector<PackedTensor> tensors_;
};

}  // namespace sluice
