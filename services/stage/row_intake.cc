#include "services/stage/row_intake.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/process/log.h"

namespace sluice {

void NoteRingUnused(const absl::Status& why) {
  Log(LogLevel::kInfo, "rows", "ring-unused", {{"status", why.ToString()}});
}

RowIntake::RowIntake(ActivationsReceiver& receiver, const WiringIdentity& wiring, Backend& backend,
                     RingOpening opening)
    : receiver_(receiver),
      wiring_(wiring),
      opening_(opening),
      ring_use_(backend.sharing() == nullptr ? RingUse::kNone : RingUse::kTaken),
      ring_(backend),
      inbox_(std::make_shared<ActivationsReceiver::Inbox>()) {}

void RowIntake::Open() { receiver_.Open(wiring_, inbox_, ring_use_); }

void RowIntake::Close(const absl::Status& reason) {
  inbox_->Close(reason);
  receiver_.Close(wiring_.epoch, reason);
}

absl::StatusOr<v1::PushStep> RowIntake::RowsOf(uint64_t step_id) {
  while (!early_.contains(step_id)) {
    absl::StatusOr<v1::PushRequest> request = inbox_->Next();
    if (!request.ok()) return request.status();
    v1::PushStep& step = *request->mutable_step();
    if (step.epoch() != wiring_.epoch) {
      return absl::AbortedError(
          absl::StrCat("rows of epoch ", step.epoch(), " on a stream of epoch ", wiring_.epoch));
    }
    const uint64_t id = step.step_id();
    if (early_.size() >= kMostEarly) {
      return absl::InvalidArgumentError(
          absl::StrCat("rows of ", early_.size(), " steps came before those of step ", step_id));
    }
    early_.insert_or_assign(id, std::move(step));
  }
  return std::move(early_.extract(step_id).mapped());
}

absl::Status RowIntake::Load(const v1::PushStep& step, StepRows& rows) {
  if (opening_ == RingOpening::kOnLoad) {
    const std::optional<v1::RowRingOffer> offer = TakeOffer();
    if (offer.has_value()) OnOpened(ring_.Open(*offer, wiring_));
  }
  return ring_.Load(step, rows);
}

void RowIntake::Done() {
  const std::optional<uint64_t> taken = ring_.Done();
  if (taken.has_value()) receiver_.TellRingTaken(wiring_.epoch, *taken);
}

void RowIntake::OnOpened(const absl::Status& opened) {
  if (!opened.ok()) {
    ring_.Close();
    return NoteRingUnused(opened);
  }
  Log(LogLevel::kInfo, "rows", "ring-opened", {{"epoch", wiring_.epoch}});
  receiver_.TellRingTaken(wiring_.epoch, 0);
}

}  // namespace sluice
