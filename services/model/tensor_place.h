// Where in a model's files its tensors are. Immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/weight_format.h"
#include "services/model/checkpoint.h"
#include "services/model/model_config.h"
#include "services/model/tensor_names.h"
#include "services/model/tensor_roles.h"
#include "services/model/tensor_slice.h"

namespace sluice {

// A tensor inside a stored one, that is [rows, columns]: row r of the tensor is row
// first_row + r / run * stride + r % run of it.
struct TensorPlace {
  std::string name;
  MatrixShape stored;  // as rows of outputs, even where the file has it transposed
  int64_t first_row = 0;
  int64_t run = 0;
  int64_t stride = 0;
  // Not 0: within each such run of stored rows, rows i and i + paired / 2 are neighbours.
  int64_t paired = 0;
  bool transposed = false;
  bool is_norm_weight = false;
  std::optional<WeightFormat> quantized;  // as quantized_tensor.h has it; none: plain, or published

  // All of the stored tensor, whatever else is fused into it.
  TensorPlace Whole() const;
  // Rows from `row` on, at most `most`, that lie together in the stored tensor.
  IndexRange StoredRows(int64_t row, int64_t most) const;
};

class TensorPlaces {
 public:
  TensorPlaces(const ModelConfig& config, const TensorNames& names, const Checkpoint& checkpoint);

  // The places in the files that `sluice quantize` makes of these.
  TensorPlaces Quantized(const Quantization& quantization) const;

  // REQUIRES: the model has the tensor.
  TensorPlace Of(TensorId tensor) const;

  // Whether the files hold projections as [inputs, outputs].
  bool transposed() const { return transposed_; }

 private:
  std::string NameOf(TensorId tensor) const;
  // How the files, if `sluice quantize` wrote them, hold a tensor.
  std::optional<WeightFormat> StoredQuantized(TensorId tensor) const;

  ModelConfig config_;
  const TensorNames* names_;
  bool transposed_;
  bool has_prefix_ = true;     // the names' optional one
  bool tied_as_head_ = false;  // what the embedding and the head share has the head's name
};

}  // namespace sluice
