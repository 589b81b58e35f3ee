// Where in a model's files its tensors are. Immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/weight_format.h"
#include "services/model/checkpoint.h"
#include "services/model/model_config.h"
#include "services/model/tensor_names.h"
#include "services/model/tensor_roles.h"
#include "services/model/tensor_slice.h"

namespace sluice {

// Runs of indices that are stored in another order: run g * each + j is the stored run j * groups + g.
struct Tiles {
  int64_t groups = 1;
  int64_t each = 1;
  int64_t size = 0;  // indices of a run

  bool empty() const { return groups == 1 || each == 1; }
  int64_t StoredRun(int64_t run) const { return run % each * groups + run / each; }
};

// A tensor inside a stored one, that is [rows, columns]: row r of the tensor is row
// first_row + r / run * stride + r % run of it, from column first_column on.
struct TensorPlace {
  std::string name;
  MatrixShape stored;    // as rows of outputs, even where the file has it transposed
  int64_t matrices = 0;  // MatrixShape's, of the file's tensor
  int64_t first_column = 0;
  int64_t first_row = 0;
  int64_t run = 0;
  int64_t stride = 0;
  // Not 0: within each such run of stored rows, rows i and i + paired / 2 are neighbours.
  int64_t paired = 0;
  Tiles row_tiles;  // of the tensor's rows, which lie together otherwise
  Tiles column_tiles;
  bool is_negative_rate = false;  // its logarithm is what is wanted, without the sign
  bool transposed = false;
  bool stacked = false;  // with those of other experts
  bool is_norm_weight = false;
  // Every row is a vector of its own, in whose name the row's number stands for the "*" of `name`.
  bool rows_apart = false;
  std::optional<WeightFormat> quantized;  // as quantized_tensor.h has it; none: plain, or published
  // Not empty: rows of several stored tensors, one below the other, `run` rows of each.
  std::vector<TensorPlace> pieces;

  // All of the stored tensor, whatever else is fused into it; of stacked experts one alone.
  TensorPlace Whole() const;
  // Rows from `row` on, at most `most`, that lie together in the stored tensor.
  IndexRange StoredRows(int64_t row, int64_t most) const;
  // Of the file's tensor.
  MatrixShape FileShape() const {
    return transposed ? MatrixShape{stored.columns, stored.rows, matrices}
                      : MatrixShape{stored.rows, stored.columns, matrices};
  }
  // The vector that a row is. REQUIRES: rows_apart.
  TensorPlace Row(int64_t row) const;
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
  // Whether that, or a stack of experts, makes a matrix slow to read a few rows at a time.
  bool AreSpread(TensorId tensor) const {
    return transposed_ || (IsStacked(tensor) && OfStack(tensor).transposed);
  }

  // Whether a stored tensor belongs to a decoder layer of this model, and not to one of another
  // model that the files hold as well, such as an encoder of images.
  bool IsOfLayer(const std::string& stored_name) const;

 private:
  // Where a folder of several models has the names of its text model: as they are, below
  // "language_model.", or "model.language_model." in place of "model.".
  enum class Nesting { kNone, kOuter, kInner };

  std::string Nested(absl::string_view name) const;
  std::string NameOf(TensorId tensor) const;
  // Whether `sluice quantize` wrote the files, which have rows of outputs, and tensors for each
  // expert, whatever the family.
  bool AreOwn() const;
  // Whether the files hold the tensor together with those of the other experts.
  bool IsStacked(TensorId tensor) const;
  TensorPlace OfStack(TensorId tensor) const;
  TensorPlace OfModules(TensorId tensor) const;
  bool HasMxFp4Stacks(const Checkpoint& checkpoint) const;
  // What RecurrentFusion::kQkvTiled has in another order.
  void SetTiles(TensorRole role, TensorPlace& place) const;
  // The keys and values of latent attention, where the files hold them apart.
  TensorPlace OfHeads(TensorId tensor) const;
  // How the files, if `sluice quantize` wrote them, hold a tensor.
  std::optional<WeightFormat> StoredQuantized(TensorId tensor) const;

  ModelConfig config_;
  TensorNames names_;
  bool transposed_;
  Nesting nesting_ = Nesting::kNone;
  bool has_prefix_ = true;     // the names' optional one
  bool tied_as_head_ = false;  // what the embedding and the head share has the head's name
  // Stacks of experts are MXFP4, [E, outputs, inputs / 32, 16] and scales (published/fp4.h).
  bool has_mxfp4_stacks_ = false;
};

}  // namespace sluice
