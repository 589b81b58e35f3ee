// One of two ranks, whose peer does as the test says.
#pragma once

#include "kernels/communicator.h"
#include "kernels/communicator/wiring_identity.h"

namespace sluice::testing {

class StubCommunicator final : public Communicator {
 public:
  explicit StubCommunicator(int rank = 0) : rank_(rank) {}

  absl::Status health;
  int num_exchanges = 0;
  WiringIdentity identity;

  int rank() const override { return rank_; }
  int size() const override { return 2; }
  const WiringIdentity& wiring() const override { return identity; }
  absl::Status Broadcast(absl::Span<std::byte>, int, Deadline) override { return Exchange(); }
  absl::Status AllGather(absl::Span<const std::byte>, absl::Span<std::byte>, Deadline) override {
    return Exchange();
  }
  absl::Status AllToAll(absl::Span<const std::byte>, absl::Span<std::byte>, Deadline) override {
    return Exchange();
  }
  absl::Status Check() override { return health; }
  void Abort(absl::Status reason) override { health = reason; }

 private:
  absl::Status Exchange() {
    ++num_exchanges;
    return health;
  }

  const int rank_;
};

}  // namespace sluice::testing
