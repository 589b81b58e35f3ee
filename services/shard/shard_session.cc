#include "services/shard/shard_session.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/stage/stage_adapters.h"

namespace sluice {
namespace {

constexpr absl::Duration kReportEvery = absl::Milliseconds(100);

// ALREADY_EXISTS on a Run stream says that the stage belongs to another orchestrator, which ranks
// that claim one place do not.
absl::Status JoinFailure(const absl::Status& status) {
  const absl::Status failure =
      absl::IsAlreadyExists(status) ? absl::AbortedError(status.message()) : status;
  return Annotate(failure, "joining the ranks of the stage");
}

// Rows come in and go out at rank 0.
StagePeers PeersOf(const StageOpening& opening, const ShardParts& parts,
                   std::shared_ptr<grpc::Channel> next_stage) {
  if (next_stage == nullptr) return {};
  return {.receiver = &opening.receiver,
          .ring_opening = parts.num_ranks == 1 ? RingOpening::kOnLoad : RingOpening::kByCaller,
          .next_stage = std::move(next_stage),
          .ring = &parts.ring};
}

}  // namespace

ShardSession::ShardSession(const StageOpening& opening, const ShardParts& parts, JoinRanks join,
                           std::shared_ptr<grpc::Channel> next_stage)
    : leads_(next_stage != nullptr),
      parts_(parts),
      join_(std::move(join)),
      on_step_(opening.on_step),
      tables_(parts.model.num_kv_blocks()),
      port_(opening.open, opening.stream,
            {.wiring = opening.wiring,
             .memory = {.backend = parts.backend, .hidden_size = parts.hidden_size},
             .peers = PeersOf(opening, parts, std::move(next_stage)),
             .plans = leads_ ? PlanUse::kTaken : PlanUse::kNone,
             .on_close = [this](const absl::Status& reason) { Abort(reason); }}) {}

void ShardSession::AddPlan(v1::StageRunRequest request) {
  if (leads_) return port_.AddPlan(std::move(request));
  Close(absl::FailedPreconditionError("plans go to rank 0 of a stage alone"));
}

absl::Status ShardSession::Serve() {
  const absl::StatusOr<Communicator*> joined = Join();
  if (!joined.ok()) return joined.status();
  parts_.clock.Begin();
  parts_.model.DropAdapters();
  RankSteps steps(port_, parts_.backend, **joined, parts_.step_timeout);
  absl::Status status = port_.Open();
  while (status.ok()) {
    const absl::StatusOr<ShardStep> step = steps.Next();
    if (!step.ok()) return step.status();
    status = Annotate(Execute(*step), absl::StrCat("step ", step->plan.step_id()));
  }
  return status;
}

absl::Status ShardSession::Execute(const ShardStep& step) {
  const absl::Span<const uint64_t> computed = ComputedByOthers(step);
  const uint64_t sum = std::accumulate(computed.begin(), computed.end(), uint64_t{0});
  parts_.clock.StepBegins(step.began, step.plan.shard().after_idle(), absl::Nanoseconds(sum));
  absl::Status status = Forward(step.plan);
  if (status.ok() && leads_) {
    port_.Done();  // by the other ranks too: the sums of the layers needed their rows
    std::optional<absl::Span<const int32_t>> output;  // all
    if (parts_.is_last_stage) output = step.plan.shard().output_rows();
    status = port_.Send({.step_id = step.plan.step_id(),
                         .indices = output,
                         .computed_ns = computed,
                         .began = step.began});
  }
  const SteadyTime now = SteadyTime::Now();
  parts_.clock.StepEnds(now);
  if (status.ok()) ReportTimes(now);
  return status;
}

absl::Status ShardSession::Forward(const v1::StageExecute& step) {
  const v1::ShardExecute& plan = step.shard();
  const absl::Status adapted = TakeAdapters(
      step, parts_.adapters,
      [&](int slot, const std::shared_ptr<const AdapterSource>& source) {
        return parts_.model.LoadAdapter(slot, *source);
      },
      [&](int slot) { parts_.model.DropAdapter(slot); });
  if (!adapted.ok()) return adapted;
  if (absl::Status known = tables_.Update(plan); !known.ok()) return known;
  segments_.clear();
  for (const v1::Segment& segment : plan.segments()) {
    segments_.push_back({.first_position = segment.first_position(),
                         .num_positions = segment.num_positions(),
                         .block_table = tables_.TableOf(segment.sequence_id()),
                         .sequence_length = segment.sequence_length(),
                         .adapter_slot = segment.has_adapter_slot() ? segment.adapter_slot() : -1,
                         .source_positions = segment.source_positions(),
                         .state_slots = segment.state_slots()});
  }
  copies_.clear();
  for (const v1::BlockCopy& copy : plan.block_copies()) {
    copies_.push_back({.source = copy.source(), .destination = copy.destination()});
  }
  state_copies_.clear();
  for (const v1::StateCopy& copy : plan.state_copies()) {
    state_copies_.push_back({.source = copy.source(), .destination = copy.destination()});
  }
  const ProgressWatch::Work work(progress(), "step", port_.rows().rows());
  absl::Status status = parts_.model.CopyBlocks(copies_);
  if (status.ok()) status = parts_.model.CopyStates(state_copies_);
  if (status.ok()) status = parts_.model.Forward(segments_, port_.rows().view());
  if (status.ok()) on_step_();
  return status;
}

absl::Span<const uint64_t> ShardSession::ComputedByOthers(const ShardStep& step) const {
  const auto all = absl::MakeConstSpan(step.computed_ns);
  const auto num_others = static_cast<size_t>(parts_.num_stages) + 1;  // embedding and sampler
  return all.last(std::min(all.size(), num_others));
}

void ShardSession::ReportTimes(SteadyTime now) {
  if (now - last_reported_ < kReportEvery) return;
  last_reported_ = now;
  const StepClock::Times times = parts_.clock.times();
  v1::StageRunResponse response;
  response.mutable_times()->set_busy_ns(times.busy_ns);
  response.mutable_times()->set_gap_ns(times.gap_ns);
  response.mutable_times()->set_gap_computed_ns(times.gap_computed_ns);
  port_.Answer(std::move(response));
}

absl::StatusOr<Communicator*> ShardSession::Join() {
  absl::StatusOr<std::unique_ptr<Communicator>> communicator =
      join_(port_.budget().ForRanks(), joining_.get_token());
  if (!communicator.ok()) return JoinFailure(communicator.status());
  Communicator* const joined = communicator->get();
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return closed_;
    communicator_ = *std::move(communicator);
  }
  const absl::Status met = parts_.model.Join(joined, port_.budget().ForRanks());
  if (!met.ok()) return Annotate(met, "meeting the ranks of the stage");
  return joined;
}

void ShardSession::Abort(const absl::Status& reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return;
    closed_ = reason;
    if (communicator_ != nullptr) communicator_->Abort(reason);
  }
  joining_.request_stop();  // now that there is a reason, which whoever stops finds
}

}  // namespace sluice
