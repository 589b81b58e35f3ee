// The tensor-parallel ranks of a stage, as a backend's operations meet them: partial results are
// added up in the backend's stream of work, wherever its memory is. Messages between the ranks that
// are no tensors go through the Communicator itself.
//
// Driven by the backend's thread; the backend must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "kernels/deadline.h"
#include "kernels/matrix_view.h"

namespace sluice {

class Communicator;

struct RankGroupSpec {
  int num_ranks = 2;     // a power of two up to 8
  int64_t max_rows = 0;  // of a partial, >= 1
  int64_t width = 0;     // columns of a partial, >= 1
  // Partials of at most this many bytes are exchanged whole, larger ones in parts; the bits are the
  // same.
  size_t gather_bytes = size_t{64} << 10;
};

// The norm that follows in the residual stream: Ops::LayerNorm where it is centred, else RmsNorm.
struct RowNorm {
  const float* weight = nullptr;  // [H]
  const float* bias = nullptr;    // [H], of a centred one; null: none
  float eps = 0;
  bool centred = false;
};

// What a sum over ranks does to the residual stream, with the bits of the operations one by one:
// residual += sum + bias, and normed = the norm of that.
struct ResidualUpdate {
  MatrixView residual;          // [T, H] F32
  const float* bias = nullptr;  // [H] F32; null: none
  std::optional<RowNorm> norm;  // none: only the sum
  MatrixView normed;            // [T, H] F32 or in operand dtype, not the residual
};

class RankGroup {
 public:
  virtual ~RankGroup() = default;

  // Meets the ranks of a new epoch through `communicator`, before its first step: whatever is
  // exchanged from now on goes to them. On GPUs the ranks agree here on how, which takes seconds
  // and until `deadline` at most. Borrows `communicator` until the next call. The communicator's
  // failure, or that of what moves the bytes; the next epoch may join all the same.
  virtual absl::Status Join(Communicator* communicator, Deadline deadline) = 0;

  // The exchanges of the step that is about to be enqueued may take until `deadline`. After Join().
  virtual void BeginStep(Deadline deadline) = 0;

  // Adds the sum over the ranks' partials to the residual stream, as `update` says. The sum is the
  // balanced binary tree of Ops::TreeAdd: the same bits on every rank and for every number of
  // ranks. partial [T, width] F32 without gaps between rows, T the same on every rank; the memory of
  // PaddedRows(T, num_ranks) rows is overwritten. Enqueued like any operation: a failure that is
  // known at once, the communicator's, is returned; one that comes later shows at the backend's
  // Synchronize(). The residual is then undefined.
  virtual absl::Status SumToResidual(MatrixView partial, const ResidualUpdate& update) = 0;
};

// The rows of memory that a partial of `rows` rows must have: a multiple of num_ranks.
constexpr int64_t PaddedRows(int64_t rows, int num_ranks) {
  return (rows + num_ranks - 1) / num_ranks * num_ranks;
}

}  // namespace sluice
