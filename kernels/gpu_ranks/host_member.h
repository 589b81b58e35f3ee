// A rank among others of which some are threads of one process, for one epoch: what it sends is
// copied out of the device, exchanged over the communicator, and copied in. So no work on a device
// ever waits for another rank's, and whatever the driver waits for comes to an end.
#pragma once

#include <functional>
#include <vector>

#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "kernels/gpu_ranks/epoch_watch.h"
#include "kernels/gpu_ranks/rank_member.h"

namespace sluice {

class HostMember final : public RankMember {
 public:
  // Borrows both. `leave_unrecorded` is called in every exchange: the step that is being enqueued
  // waits on the host, and must never be recorded.
  HostMember(Backend& backend, Communicator& communicator, std::function<void()> leave_unrecorded);

  // Wait for the backend's work, and until SetDeadline()'s for the others. A failure is returned by
  // every later call as well: ranks that have left out an exchange would take one for another.
  absl::Status AllGather(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override;
  absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override;
  void SetDeadline(Deadline deadline) override { watch_.SetDeadline(deadline); }
  absl::Status Look() override { return watch_.Look(); }

 private:
  using Call = absl::Status (Communicator::*)(absl::Span<const std::byte>, absl::Span<std::byte>,
                                              Deadline);
  absl::Status Exchange(Call call, absl::Span<const std::byte> sent,
                        absl::Span<std::byte> received);

  Backend& backend_;
  Communicator& communicator_;
  const std::function<void()> leave_unrecorded_;
  EpochWatch watch_;
  // Of the host; as large as was needed so far.
  std::vector<std::byte> sent_, received_;
};

}  // namespace sluice
