#include "kernels/gpu_ranks/host_member.h"

#include <utility>

namespace sluice {
namespace {

absl::Span<std::byte> Room(std::vector<std::byte>& memory, size_t bytes) {
  if (memory.size() < bytes) memory.resize(bytes);
  return absl::MakeSpan(memory).first(bytes);
}

}  // namespace

HostMember::HostMember(Backend& backend, Communicator& communicator,
                       std::function<void()> leave_unrecorded)
    : backend_(backend),
      communicator_(communicator),
      leave_unrecorded_(std::move(leave_unrecorded)),
      watch_(communicator, "exchanging through the host") {}

absl::Status HostMember::AllGather(absl::Span<const std::byte> sent,
                                   absl::Span<std::byte> received) {
  return Exchange(&Communicator::AllGather, sent, received);
}

absl::Status HostMember::AllToAll(absl::Span<const std::byte> sent,
                                  absl::Span<std::byte> received) {
  return Exchange(&Communicator::AllToAll, sent, received);
}

absl::Status HostMember::Exchange(Call call, absl::Span<const std::byte> sent,
                                  absl::Span<std::byte> received) {
  leave_unrecorded_();
  if (!watch_.failure().ok()) return watch_.failure();
  const absl::Span<std::byte> out = Room(sent_, sent.size());
  const absl::Span<std::byte> in = Room(received_, received.size());
  // Waits for the work that computes it, and looks at the watch meanwhile.
  absl::Status status = backend_.CopyOut(sent.data(), out);
  if (status.ok()) status = (communicator_.*call)(out, in, watch_.deadline());
  if (!status.ok()) return watch_.Fail(status);
  backend_.CopyIn(in, received.data());
  return status;
}

}  // namespace sluice
