#include "services/stage/stage_links.h"

#include <utility>

#include "services/common/status.h"

namespace sluice {

StageLinks::StageLinks(const WiringIdentity& wiring, const StageMemory& memory, StagePeers peers,
                       std::function<void(const absl::Status&)> on_lost)
    : wiring_(wiring), rows_(memory.backend, memory.hidden_size), publisher_(peers.publisher) {
  if (peers.receiver != nullptr) {
    intake_.emplace(*peers.receiver, wiring, memory.backend, peers.ring_opening);
  }
  if (peers.sampler != nullptr) {
    follower_.emplace(
        std::move(peers.sampler), wiring,
        [on_lost](const absl::Status& status) { on_lost(Annotate(status, "sampler")); },
        peers.sampler_lane);
  }
  if (peers.next_stage != nullptr) {
    sender_.emplace(
        std::move(peers.next_stage), wiring,
        [this, on_lost](const absl::Status& status) {
          on_lost(Annotate(status, "next stage"));
          if (follower_.has_value()) follower_->Cancel();  // a plan may wait for a token
        },
        peers.ring);
  }
}

absl::Status StageLinks::OpenLinks(const OpenBudget& budget) {
  absl::Status status;
  if (sender_.has_value()) {
    status = Annotate(sender_->WaitUntilOpen(budget.deadline()), "next stage");
  }
  if (status.ok() && follower_.has_value()) {
    status = Annotate(follower_->WaitUntilOpen(budget.deadline()), "sampler");
  }
  if (!status.ok()) return status;
  if (sender_.has_value()) sender_->OfferRing();
  if (intake_.has_value()) intake_->Open();
  if (publisher_ != nullptr) publisher_->Open(wiring_);
  return absl::OkStatus();
}

void StageLinks::Stop(const absl::Status& reason) {
  if (intake_.has_value()) intake_->Close(reason);
  if (publisher_ != nullptr) publisher_->Close(wiring_.epoch, reason);
}

void StageLinks::Cancel() {
  if (sender_.has_value()) sender_->Cancel();
  if (follower_.has_value()) follower_->Cancel();
}

void StageLinks::Release() {
  if (intake_.has_value()) intake_->ring().Close();
}

absl::Status StageLinks::Send(const Output& output) {
  v1::PushStep step;
  step.set_step_id(output.step_id);
  const absl::Status stored = sender_->Store(rows_, output.indices, step);
  if (!stored.ok()) return stored;
  for (const uint64_t computed : output.computed_ns) step.add_computed_ns(computed);
  const absl::Duration own = SteadyTime::Now() - output.began;
  step.add_computed_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(own)));
  sender_->Send(std::move(step));
  return absl::OkStatus();
}

}  // namespace sluice
