// The rank group of backends whose memory is the host's: the communicator moves the bytes, the
// backend adds them (exchanged_sum.h).
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "kernels/exchanged_sum.h"

namespace sluice {

class HostRankGroup final : public RankGroup, private RankExchange {
 public:
  // Allocates what the largest exchange needs. RESOURCE_EXHAUSTED where the backend lacks memory.
  // REQUIRES: an operation of `backend` has finished when its call returns.
  static absl::StatusOr<std::unique_ptr<RankGroup>> Create(const RankGroupSpec& spec,
                                                           Backend& backend);

  absl::Status Join(Communicator* communicator, Deadline deadline) override;
  void BeginStep(Deadline deadline) override { deadline_ = deadline; }
  absl::Status SumToResidual(MatrixView partial, const ResidualUpdate& update) override;

 private:
  explicit HostRankGroup(ExchangedSum sum) : sum_(std::move(sum)) {}

  absl::Status AllGather(absl::Span<const std::byte> sent,
                         absl::Span<std::byte> received) override {
    return communicator_->AllGather(sent, received, deadline_);
  }
  absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override {
    return communicator_->AllToAll(sent, received, deadline_);
  }

  ExchangedSum sum_;
  Communicator* communicator_ = nullptr;
  Deadline deadline_ = Deadline::Never();
};

}  // namespace sluice
