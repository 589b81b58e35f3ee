// A rank among others on one GPU, for one epoch: the exchange, and the watch over it.
#pragma once

#include <utility>

#include "kernels/communicator/communicator.h"
#include "kernels/gpu_ranks/peer_exchange.h"
#include "kernels/gpu_ranks/rank_member.h"

namespace sluice {

class PeerMember final : public RankMember {
 public:
  // Borrows all but the places. The flags of every rank have been initialised.
  PeerMember(PeerPlaces places, PeerStream& stream, Communicator& communicator)
      : exchange_(std::move(places), stream), communicator_(communicator) {}

  absl::Status AllGather(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override;
  absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override;
  void SetDeadline(Deadline deadline) override { deadline_ = deadline; }
  absl::Status Look() override;

 private:
  absl::Status Seen();

  PeerExchange exchange_;
  Communicator& communicator_;
  Deadline deadline_ = Deadline::Never();
  absl::Status failure_;
};

}  // namespace sluice
