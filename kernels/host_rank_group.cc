#include "kernels/host_rank_group.h"

#include "kernels/check.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<RankGroup>> HostRankGroup::Create(const RankGroupSpec& spec,
                                                                 Backend& backend) {
  absl::StatusOr<ExchangedSum> sum = ExchangedSum::Create(spec, backend);
  if (!sum.ok()) return sum.status();
  return std::unique_ptr<RankGroup>(new HostRankGroup(*std::move(sum)));
}

absl::Status HostRankGroup::Join(Communicator* communicator, Deadline /*deadline*/) {
  SLUICE_CHECK(communicator != nullptr && communicator->size() == sum_.spec().num_ranks);
  communicator_ = communicator;
  return absl::OkStatus();
}

absl::Status HostRankGroup::SumToResidual(MatrixView partial, const ResidualUpdate& update) {
  SLUICE_CHECK(communicator_ != nullptr);
  return sum_.SumToResidual(partial, update, *this);
}

}  // namespace sluice
