#include "services/stage/stage_port.h"

#include <utility>

namespace sluice {

StagePort::StagePort(const v1::StageOpen& open, std::shared_ptr<Stream> stream, Options options)
    : PlanLink(open, options.wiring, std::move(stream)),
      StageLinks(options.wiring, options.memory, std::move(options.peers),
                 [this, on_close = options.on_close](const absl::Status& status) {
                   Lose(status, on_close);
                 }),
      budget_(open),
      plan_use_(options.plans),
      on_close_(std::move(options.on_close)) {}

absl::Status StagePort::Open() {
  const absl::Status status = OpenLinks(budget_);
  if (status.ok()) SendOpened(wiring(), plan_use_);
  return status;
}

absl::StatusOr<StageStep> StagePort::Next() {
  absl::StatusOr<v1::StageExecute> plan = NextPlan();
  if (!plan.ok()) return plan.status();
  absl::StatusOr<v1::PushStep> rows = RowsOf(plan->step_id());
  if (!rows.ok()) return rows.status();
  return StageStep{*std::move(plan), *std::move(rows)};
}

void StagePort::Close(const absl::Status& reason) {
  Lose(reason, on_close_);
  Cancel();
}

void StagePort::Finish(const absl::Status& reason) {
  Close(reason.ok() ? absl::CancelledError("the session is over") : reason);
  Release();
}

void StagePort::Lose(const absl::Status& reason,
                     const std::function<void(const absl::Status&)>& on_close) {
  const absl::Status first = ClosePlans(reason);
  Stop(first);
  if (on_close != nullptr) on_close(first);
}

}  // namespace sluice
