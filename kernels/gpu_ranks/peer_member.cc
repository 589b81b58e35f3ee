#include "kernels/gpu_ranks/peer_member.h"

namespace sluice {

absl::Status PeerMember::AllGather(absl::Span<const std::byte> sent,
                                   absl::Span<std::byte> received) {
  return watch_.failure().ok() ? exchange_.AllGather(sent, received) : watch_.failure();
}

absl::Status PeerMember::AllToAll(absl::Span<const std::byte> sent,
                                  absl::Span<std::byte> received) {
  return watch_.failure().ok() ? exchange_.AllToAll(sent, received) : watch_.failure();
}

absl::Status PeerMember::Look() {
  absl::Status told = watch_.Look();
  if (!watch_.failure().ok()) exchange_.Release();
  return told;
}

}  // namespace sluice
