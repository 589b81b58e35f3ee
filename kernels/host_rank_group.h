// The rank group of backends whose memory is the host's: the communicator moves the bytes, the
// backend adds them.
//
// Two ways, the same bits:
//   few rows   every rank gathers all partials and adds them all: one exchange
//   many rows  rank r gets all partials of the r-th part of the rows, adds those, and all gather
//              the sums: two exchanges, but every rank receives only 2 (R-1)/R partials instead of
//
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/communicator/communicator.h"

namespace sluice {

class HostRankGroup final : public RankGroup {
 public:
  // Allocates what the largest exchange needs. RESOURCE_EXHAUSTED where the backend lacks memory.
  // REQUIRES: an operation of `backend` has finished when its call returns.
  static absl::StatusOr<std::unique_ptr<RankGroup>> Create(const RankGroupSpec& spec,
                                                           Backend& backend);

  void BeginStep(Communicator* communicator, Deadline deadline) override;
  absl::Status Sum(MatrixView partial) override;

 private:
  HostRankGroup(const RankGroupSpec& spec, Backend& backend, std::unique_ptr<Buffer> memory)
      : spec_(spec), backend_(backend), memory_(std::move(memory)) {}

  absl::Status SumAll(MatrixView partial);
  absl::Status SumParts(MatrixView partial);
  // Adds num_ranks matrices like `out` that lie one after another in memory_.
  void AddGathered(MatrixView out);

  const RankGroupSpec spec_;
  Backend& backend_;
  const std::unique_ptr<Buffer> memory_;
  Communicator* communicator_ = nullptr;
  Deadline deadline_ = Deadline::Never();
};

}  // namespace sluice
