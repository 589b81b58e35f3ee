// A rank among others on one GPU, each a process, for one epoch: the exchange, and the watch over it.
#pragma once

#include <utility>

#include "kernels/communicator.h"
#include "kernels/gpu_ranks/epoch_watch.h"
#include "kernels/gpu_ranks/peer_exchange.h"
#include "kernels/gpu_ranks/rank_member.h"

namespace sluice {

class PeerMember final : public RankMember {
 public:
  // Borrows all but the places. The flags of every rank have been initialised.
  PeerMember(PeerPlaces places, PeerStream& stream, Communicator& communicator)
      : exchange_(std::move(places), stream), watch_(communicator, "exchanging on one GPU") {}

  absl::Status AllGather(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override;
  absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override;
  void SetDeadline(Deadline deadline) override { watch_.SetDeadline(deadline); }
  absl::Status Look() override;

 private:
  PeerExchange exchange_;
  EpochWatch watch_;
};

}  // namespace sluice
