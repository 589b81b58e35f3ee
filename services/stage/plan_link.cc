#include "services/stage/plan_link.h"

#include <utility>

#include "services/messages/wiring_message.h"
#include "services/stage/lane_offer.h"

namespace sluice {

PlanLink::PlanLink(const v1::StageOpen& open, const WiringIdentity& wiring,
                   std::shared_ptr<Stream> stream)
    : kind_(open.kind_case()), stream_(std::move(stream)) {
  if (open.has_lane() && stream_->on_this_host()) {
    NoteUnused("orchestrator", answers_.Open(open.lane(), wiring));
  }
}

absl::StatusOr<v1::StageExecute> PlanLink::NextPlan() {
  absl::StatusOr<v1::StageRunRequest> request = plans_.Next();
  if (!request.ok()) return request.status();
  if (!request->has_execute()) return absl::InvalidArgumentError("a request without a plan");
  if (request->execute().kind_case() != kind_) {
    return absl::InvalidArgumentError("a plan for another kind of stage");
  }
  return std::move(*request->mutable_execute());
}

void PlanLink::Answer(v1::StageRunResponse&& response) {
  answers_.Send(std::move(response),
                [this](v1::StageRunResponse&& unsent) { stream_->Send(std::move(unsent)); });
}

void PlanLink::SendOpened(const WiringIdentity& wiring, PlanUse use) {
  v1::StageRunResponse response;
  SetWiring(wiring, *response.mutable_opened());
  if (use == PlanUse::kTaken) OfferLane(*stream_, plans_, wiring, *response.mutable_opened());
  stream_->Send(std::move(response));
}

absl::Status PlanLink::ClosePlans(const absl::Status& reason) {
  const absl::Status first = FirstReason(reason);
  stream_->Close(first);
  plans_.Close(first);
  return first;
}

absl::Status PlanLink::FirstReason(const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  if (closed_.ok()) closed_ = reason;
  return closed_;
}

}  // namespace sluice
