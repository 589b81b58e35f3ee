// A rank's membership in NCCL groups, one after another: a new one with every epoch. A state
// machine over NcclApi; belongs to the backend's thread.
//
//             Join                 all have come
//   apart ───────────► meeting ───────────────────► member
//     ▲                   │                            │
//     └───────────────────┴────────────────────────────┘
//        Join again, a failure of NCCL, a peer that is gone, a deadline: Abort of the group
//
// Whatever goes wrong is a status that every call returns until the next Join(); the process lives,
// and work that waits on the GPU for a lost peer is released. An exchange that fails may be part of a
// step that is being recorded, when nothing can be destroyed: the next Look() aborts the group.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "kernels/communicator.h"
#include "kernels/deadline.h"
#include "kernels/gpu_ranks/nccl_api.h"
#include "kernels/gpu_ranks/rank_member.h"

namespace sluice {

class NcclMember final : public RankMember {
 public:
  // `pause` is called between two looks at what is under way: a short sleep; `forget_recordings` before
  // a group ends: those that name it must be destroyed then.
  NcclMember(NcclApi& api, std::function<void()> pause, std::function<void()> forget_recordings);
  ~NcclMember() override;
  NcclMember(const NcclMember&) = delete;
  NcclMember& operator=(const NcclMember&) = delete;

  // Leaves the group of the epoch before and meets the ranks of `communicator`, which it borrows
  // until the next call. All ranks call it.
  //   DEADLINE_EXCEEDED  a rank did not come
  //   UNAVAILABLE        a rank is gone, or could not draw an id
  //   ABORTED            the id is of another wiring
  //   otherwise          the communicator's failure (Abort), or NCCL's
  absl::Status Join(Communicator* communicator, Deadline deadline);

  void SetDeadline(Deadline deadline) override { deadline_ = deadline; }

  absl::Status AllGather(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override;
  absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override;

  absl::Status Look() override;

  bool is_member() const { return group_ != nullptr && status_.ok(); }

 private:
  absl::Status Meet(Deadline deadline);
  absl::StatusOr<NcclId> AgreeOnId(Deadline deadline);
  // Waits until what is under way is done.
  absl::Status Settle(Deadline deadline, const char* doing);
  absl::Status LookUntil(Deadline deadline, const char* doing);
  absl::Status Fail(const absl::Status& status, const char* doing);
  void Leave();

  NcclApi& api_;
  const std::function<void()> pause_;
  const std::function<void()> forget_recordings_;
  Communicator* communicator_ = nullptr;
  NcclGroup* group_ = nullptr;  // none while apart
  absl::Status status_;         // why it is apart, or will be
  bool is_told_ = true;         // by Look()
  Deadline deadline_ = Deadline::Never();
};

}  // namespace sluice
