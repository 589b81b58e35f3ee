// Adds the partial results of a stage's ranks: the communicator moves the bytes, the backend adds
// them in the fixed binary tree of Backend::TreeAdd, so the sum has the same bits on every rank and
// for every number of ranks. Driven by one thread at a time; the backend must outlive it.
//
// Two ways, the same bits:
//   few rows   every rank gathers all partials and adds them all: one exchange
//   many rows  rank r gets all partials of the r-th part of the rows, adds those, and all gather
//   the
//              sums: two exchanges, but every rank receives only 2 (R-1)/R partials instead of R-1
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/backend.h"
#include "kernels/communicator/communicator.h"

namespace sluice {

struct TreeReducerOptions {
  int num_ranks = 1;     // a power of two
  int64_t max_rows = 0;  // of a partial, >= 1
  int64_t width = 0;     // columns of a partial, >= 1
  // Partials of at most this many bytes take the way for few rows.
  size_t gather_bytes = size_t{64} << 10;
};

class TreeReducer {
 public:
  // Allocates what the largest exchange needs; nothing for one rank. RESOURCE_EXHAUSTED where the
  // backend lacks memory.
  static absl::StatusOr<TreeReducer> Create(const TreeReducerOptions& options, Backend& backend);

  // A partial of `max_rows` must have this many rows of memory behind it: a multiple of num_ranks.
  static int64_t PaddedRows(int64_t max_rows, int num_ranks);

  // partial = the sum over the ranks' partials. [T, width] F32 without gaps between rows, 1 <= T <=
  // max_rows, T the same on every rank; the memory of PaddedRows(T, num_ranks) rows is overwritten.
  // Returns what the communicator returns when it fails; `partial` is then undefined. The
  // communicator may be null for one rank.
  absl::Status Sum(Communicator* communicator, MatrixView partial, Deadline deadline);

 private:
  TreeReducer(const TreeReducerOptions& options, Backend& backend, std::unique_ptr<Buffer> memory)
      : options_(options), backend_(&backend), memory_(std::move(memory)) {}

  absl::Status SumAll(Communicator& communicator, MatrixView partial, Deadline deadline);
  absl::Status SumParts(Communicator& communicator, MatrixView partial, Deadline deadline);
  // Adds num_ranks matrices like `out` that lie one after another in memory_.
  void AddGathered(MatrixView out);

  TreeReducerOptions options_;
  Backend* backend_;
  std::unique_ptr<Buffer> memory_;
};

}  // namespace sluice
