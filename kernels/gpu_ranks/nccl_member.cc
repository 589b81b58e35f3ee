#include "kernels/gpu_ranks/nccl_member.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/communicator/wiring_identity.h"

namespace sluice {
namespace {

constexpr char kMeeting[] = "meeting over NCCL";
constexpr char kExchanging[] = "exchanging over NCCL";

// What rank 0 tells the others.
struct IdMessage {
  WiringIdentity wiring;
  NcclId id;
  bool is_drawn;
  char failure[199];
};

absl::Status NotYetJoined() { return absl::FailedPreconditionError("the ranks have not met yet"); }

}  // namespace

NcclMember::NcclMember(NcclApi& api, std::function<void()> pause,
                       std::function<void()> forget_recordings)
    : api_(api),
      pause_(std::move(pause)),
      forget_recordings_(std::move(forget_recordings)),
      status_(NotYetJoined()) {}

NcclMember::~NcclMember() { Leave(); }

void NcclMember::Leave() {
  if (group_ == nullptr) return;
  forget_recordings_();
  api_.Abort(std::exchange(group_, nullptr));
}

absl::Status NcclMember::Fail(const absl::Status& status, const char* doing) {
  status_ = absl::Status(status.code(),
                         absl::StrCat("rank ", communicator_->rank(), " of ", communicator_->size(),
                                      ", ", doing, ": ", status.message()));
  is_told_ = false;
  return status_;
}

absl::Status NcclMember::Join(Communicator* communicator, Deadline deadline) {
  SLUICE_CHECK(communicator != nullptr);
  Leave();
  communicator_ = communicator;
  deadline_ = deadline;
  status_ = absl::OkStatus();
  is_told_ = true;
  const absl::Status met = Meet(deadline);
  if (!met.ok()) Leave();
  is_told_ = true;  // here
  return met;
}

absl::Status NcclMember::Meet(Deadline deadline) {
  const absl::StatusOr<NcclId> id = AgreeOnId(deadline);
  if (!id.ok()) return Fail(id.status(), kMeeting);
  const absl::StatusOr<NcclGroup*> group =
      api_.Begin(*id, communicator_->rank(), communicator_->size());
  if (!group.ok()) return Fail(group.status(), kMeeting);
  group_ = *group;
  return Settle(deadline, kMeeting);
}

absl::StatusOr<NcclId> NcclMember::AgreeOnId(Deadline deadline) {
  IdMessage message{};
  if (communicator_->rank() == 0) {
    message.wiring = communicator_->wiring();
    const absl::StatusOr<NcclId> id = api_.NewId();
    message.is_drawn = id.ok();
    if (id.ok()) message.id = *id;
    const std::string failure(id.status().message());
    std::strncpy(message.failure, failure.c_str(), sizeof(message.failure) - 1);
  }
  const absl::Status told = communicator_->Broadcast(
      {reinterpret_cast<std::byte*>(&message), sizeof(message)}, /*root=*/0, deadline);
  if (!told.ok()) return told;
  const absl::Status same = CheckSameWiring(message.wiring, communicator_->wiring());
  if (!same.ok()) {
    return absl::Status(same.code(), absl::StrCat("the id of rank 0: ", same.message()));
  }
  if (message.is_drawn) return message.id;
  message.failure[sizeof(message.failure) - 1] = '\0';
  return absl::UnavailableError(absl::StrCat("rank 0 has drawn no id: ", message.failure));
}

absl::Status NcclMember::LookUntil(Deadline deadline, const char* doing) {
  const absl::Status peers = communicator_->Check();
  if (!peers.ok()) return Fail(peers, doing);
  if (!deadline.HasPassed()) return absl::OkStatus();
  return Fail(absl::DeadlineExceededError("a rank did not come in time"), doing);
}

absl::Status NcclMember::Settle(Deadline deadline, const char* doing) {
  while (true) {
    const absl::StatusOr<NcclProgress> progress = api_.Progress(group_);
    if (!progress.ok()) return Fail(progress.status(), doing);
    if (*progress == NcclProgress::kDone) return absl::OkStatus();
    if (absl::Status looked = LookUntil(deadline, doing); !looked.ok()) return looked;
    pause_();
  }
}

absl::Status NcclMember::AllGather(absl::Span<const std::byte> sent,
                                   absl::Span<std::byte> received) {
  if (!is_member()) return status_;
  const absl::Status called = api_.AllGather(group_, sent.data(), received.data(), sent.size());
  return called.ok() ? Settle(deadline_, kExchanging) : Fail(called, kExchanging);
}

absl::Status NcclMember::AllToAll(absl::Span<const std::byte> sent,
                                  absl::Span<std::byte> received) {
  if (!is_member()) return status_;
  const size_t part = sent.size() / communicator_->size();
  const absl::Status called = api_.AllToAll(group_, sent.data(), received.data(), part);
  return called.ok() ? Settle(deadline_, kExchanging) : Fail(called, kExchanging);
}

absl::Status NcclMember::Look() {
  if (is_member()) {
    const absl::StatusOr<NcclProgress> progress = api_.Progress(group_);
    if (!progress.ok()) {
      Fail(progress.status(), kExchanging).IgnoreError();
    } else {
      LookUntil(deadline_, kExchanging).IgnoreError();
    }
  }
  if (!status_.ok()) Leave();
  return std::exchange(is_told_, true) ? absl::OkStatus() : status_;
}

}  // namespace sluice
