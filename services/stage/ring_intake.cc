#include "services/stage/ring_intake.h"

#include "services/process/log.h"

namespace sluice {

void NoteRingUnused(const absl::Status& why) {
  Log(LogLevel::kInfo, "rows", "ring-unused", {{"status", why.ToString()}});
}

void RingIntake::OpenIfOffered() {
  const std::optional<v1::RowRingOffer> offer = TakeOffer();
  if (offer.has_value()) OnOpened(reader_.Open(*offer, wiring_));
}

void RingIntake::OnOpened(const absl::Status& opened) {
  if (!opened.ok()) {
    reader_.Close();
    return NoteRingUnused(opened);
  }
  Log(LogLevel::kInfo, "rows", "ring-opened", {{"epoch", wiring_.epoch}});
  receiver_.TellRingTaken(wiring_.epoch, 0);
}

void RingIntake::Done() {
  const std::optional<uint64_t> taken = reader_.Done();
  if (taken.has_value()) receiver_.TellRingTaken(wiring_.epoch, *taken);
}

}  // namespace sluice
