#include "orchestrator/engine/engine_core.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "services/common/log.h"

namespace sluice {

EngineCore::EngineCore(EngineOptions options, Replica* replica, TextStreams* text)
    : options_(std::move(options)),
      replica_(replica),
      text_(text),
      requests_(options_.scheduler.max_queued_sequences, text),
      steps_(options_.step_timeout, replica, &requests_) {}

void EngineCore::Submit(RequestId id, EngineRequest request, std::shared_ptr<RequestSink> sink) {
  requests_.Add(id, std::move(request), std::move(sink));
}

void EngineCore::Cancel(RequestId id) { requests_.Cancel(id); }

SteadyTime EngineCore::Advance(SteadyTime now) {
  replica_->Advance(now);
  for (ReplicaEvent& event : replica_->TakeEvents()) {
    std::visit([this](auto& of_its_kind) { On(of_its_kind); }, event);
  }
  // The stages first: they compute the next step while clients are told of the last.
  SendSteps(now);
  steps_.TellRequests();
  if (text_ != nullptr) {
    text_->Advance(now);
    for (TextStreams::Answer& answer : text_->TakeAnswers()) requests_.OnText(std::move(answer));
  }
  requests_.ExpireDeadlines(now);
  SendSteps(now);  // what was told or has expired may have made room
  if (const absl::Status hangs = steps_.CheckTimeout(now); !hangs.ok()) GiveUp(hangs);
  if (given_up_) return now;
  const SteadyTime wake =
      std::min({replica_->NextWake(), steps_.NextTimeout(), requests_.NextDeadline()});
  return text_ == nullptr ? wake : std::min(wake, text_->NextWake());
}

void EngineCore::SendSteps(SteadyTime now) {
  if (serving_ && !given_up_) steps_.SendSteps(*scheduler_, now);
}

void EngineCore::SetServing(bool serving) {
  serving_ = serving;
  if (options_.on_serving_changed != nullptr) options_.on_serving_changed(serving);
}

void EngineCore::Shutdown() {
  requests_.FailAll(absl::UnavailableError("the orchestrator is shutting down"));
}

EngineStatus EngineCore::status() const {
  EngineStatus status;
  status.serving = serving_;
  status.epoch = epoch_;
  if (scheduler_.has_value()) status.scheduler = scheduler_->statistics();
  status.num_unadmitted_requests = requests_.num_waiting();
  status.num_steps = steps_.num_steps();
  status.num_generated_tokens = requests_.num_generated_tokens();
  status.num_recoveries = num_recoveries_;
  return status;
}

// ---- What becomes of the replica ----

void EngineCore::On(const ReplicaReady& ready) {
  const KvGeometry& geometry = ready.geometry;
  Log(LogLevel::kInfo, "orchestrator", "replica-ready",
      {{"epoch", ready.epoch},
       {"kv_blocks", geometry.num_blocks},
       {"block_size", geometry.block_size}});
  epoch_ = ready.epoch;
  if (!scheduler_.has_value()) {
    SchedulerOptions scheduler = options_.scheduler;
    scheduler.max_inflight_steps = replica_->topology().num_stages();
    scheduler_.emplace(scheduler, KvCacheOptions{.num_blocks = geometry.num_blocks,
                                                 .block_size = geometry.block_size});
    requests_.UseScheduler(&*scheduler_);
  }
  SetServing(true);
}

void EngineCore::On(StepExecuted& executed) {
  if (given_up_) return;
  const absl::Status status = steps_.Commit(*scheduler_, std::move(executed));
  if (!status.ok()) GiveUp(status);
}

void EngineCore::GiveUp(const absl::Status& status) {
  given_up_ = true;
  replica_->GiveUp(status);
}

void EngineCore::On(const ReplicaLost& lost) {
  steps_.TellRequests();  // what moved before the loss counts as moved
  Log(LogLevel::kWarning, "orchestrator", "replica-lost",
      {{"epoch", epoch_}, {"status", lost.status.ToString()}, {"requests", requests_.size()}});
  given_up_ = false;
  ++num_recoveries_;
  SetServing(false);
  const std::vector<RequestId> suspects = steps_.Lose();
  scheduler_->Reset();
  for (RequestId id : suspects) {
    ActiveRequest* request = requests_.Find(id);
    if (++request->num_losses <= options_.max_losses) continue;
    requests_.Fail(id, absl::InternalError(absl::StrCat(
                           "the model was lost ", request->num_losses,
                           " times over this request, last by: ", lost.status.ToString())));
  }
}

}  // namespace sluice
