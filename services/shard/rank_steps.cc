#include "services/shard/rank_steps.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/shard/step_broadcast.h"

namespace sluice {
namespace {

std::vector<uint64_t> ComputedOf(const v1::PushStep& rows) {
  return {rows.computed_ns().begin(), rows.computed_ns().end()};
}

}  // namespace

absl::StatusOr<ShardStep> RankSteps::Lead() {
  absl::StatusOr<StageStep> step = port_.Next();
  if (!step.ok()) return step.status();
  const SteadyTime began = SteadyTime::Now();
  const absl::Status shared = LoadAndBroadcast(*step);
  if (!shared.ok()) return Annotate(shared, absl::StrCat("step ", step->plan.step_id()));
  return ShardStep{std::move(step->plan), ComputedOf(step->rows), began};
}

absl::Status RankSteps::LoadAndBroadcast(StageStep& step) {
  absl::Status status = port_.Load(step.rows);
  if (!status.ok() || communicator_.size() == 1) return status;
  const Deadline deadline = Deadline::After(timeout_);
  const std::optional<v1::RowRingOffer> offer = port_.intake().TakeOffer();
  status = SendStep(communicator_, step.plan, step.rows, offer, deadline);
  if (!status.ok() || !offer.has_value()) return status;
  absl::Status opened = port_.intake().ring().Open(*offer, port_.wiring());
  status = AgreeOnRing(communicator_, opened, deadline);
  if (status.ok()) port_.intake().OnOpened(opened);
  return status;
}

absl::StatusOr<ShardStep> RankSteps::Follow() {
  ShardStep step;
  v1::PushStep rows;
  std::optional<v1::RowRingOffer> offer;
  absl::Status status = ReceiveStep(communicator_, timeout_, step.plan, rows, offer);
  if (!status.ok()) return status;
  step.began = SteadyTime::Now();
  if (offer.has_value()) {
    absl::Status opened = ring_.Open(*offer, port_.wiring());
    status = AgreeOnRing(communicator_, opened, Deadline::After(timeout_));
    if (!opened.ok()) {
      NoteRingUnused(opened);
      ring_.Close();
    }
  }
  if (status.ok()) status = ring_.Load(rows, port_.rows());
  if (!status.ok()) return status;
  step.computed_ns = ComputedOf(rows);
  return step;
}

}  // namespace sluice
