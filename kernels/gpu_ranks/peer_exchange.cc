#include "kernels/gpu_ranks/peer_exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {

PeerExchange::PeerExchange(PeerPlaces places, PeerStream& stream)
    : places_(std::move(places)), stream_(stream) {
  SLUICE_CHECK(size() >= 2 && size() <= kMostPeerRanks);
  SLUICE_CHECK(places_.flags.size() == places_.slots.size());
  SLUICE_CHECK(places_.rank >= 0 && places_.rank < size());
}

void PeerExchange::Initialise(PeerFlags& flags) {
  for (int rank = 0; rank < kMostPeerRanks; ++rank) {
    flags.filled[rank].value = 0;
    flags.read[rank].value = 1;
  }
}

void PeerExchange::Release() {
  PeerFlags& own = *places_.flags[places_.rank];
  for (int rank = 0; rank < size(); ++rank) {
    own.filled[rank].value = 1;
    own.read[rank].value = 1;
  }
}

absl::Status PeerExchange::AllGather(absl::Span<const std::byte> sent,
                                     absl::Span<std::byte> received) {
  SLUICE_CHECK(received.size() == sent.size() * size());
  return Exchange(sent, /*part_offset=*/0, sent.size(), received);
}

absl::Status PeerExchange::AllToAll(absl::Span<const std::byte> sent,
                                    absl::Span<std::byte> received) {
  SLUICE_CHECK(received.size() == sent.size() && sent.size() % size() == 0);
  const size_t part = sent.size() / size();
  return Exchange(sent, part * places_.rank, part, received);
}

absl::Status PeerExchange::Exchange(absl::Span<const std::byte> sent, size_t part_offset,
                                    size_t part_bytes, absl::Span<std::byte> received) {
  if (sent.size() > places_.slot_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "an exchange of ", sent.size(), " bytes does not fit into slots of ", places_.slot_bytes));
  }
  const int self = places_.rank;
  absl::Status status;
  const auto with_peers = [&](auto&& enqueue) {
    for (int peer = 0; peer < size() && status.ok(); ++peer) {
      if (peer != self) status = enqueue(peer);
    }
  };
  const auto take_part_of = [&](int rank) {
    return stream_.Copy(places_.slots[rank] + part_offset, received.data() + rank * part_bytes,
                        part_bytes);
  };
  PeerFlags& own = *places_.flags[self];
  with_peers([&](int peer) { return stream_.Await(own.read[peer]); });
  if (status.ok()) status = stream_.Copy(sent.data(), places_.slots[self], sent.size());
  with_peers([&](int peer) { return stream_.Set(places_.flags[peer]->filled[self]); });
  with_peers([&](int peer) { return stream_.Await(own.filled[peer]); });
  for (int rank = 0; rank < size() && status.ok(); ++rank) status = take_part_of(rank);
  with_peers([&](int peer) { return stream_.Set(places_.flags[peer]->read[self]); });
  return status;
}

}  // namespace sluice
