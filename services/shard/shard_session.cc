#include "services/shard/shard_session.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/messages/wiring_message.h"
#include "services/shard/step_broadcast.h"
#include "services/stage/lane_offer.h"

namespace sluice {
namespace {

constexpr absl::Duration kJoinTimeout = absl::Seconds(5);
// GPUs take seconds to find each other.
constexpr absl::Duration kMeetTimeout = absl::Seconds(20);
constexpr absl::Duration kOpenTimeout = absl::Seconds(10);
constexpr absl::Duration kTellEvery = absl::Milliseconds(100);

// ALREADY_EXISTS on a Run stream says that the stage belongs to another orchestrator, which ranks
// that claim one place do not.
absl::Status JoinFailure(const absl::Status& status) {
  const absl::Status failure =
      absl::IsAlreadyExists(status) ? absl::AbortedError(status.message()) : status;
  return Annotate(failure, "joining the ranks of the stage");
}

}  // namespace

ShardSession::ShardSession(const WiringIdentity& wiring, const ShardParts& parts, JoinRanks join,
                           std::shared_ptr<Stream> stream)
    : wiring_(wiring),
      parts_(parts),
      join_(std::move(join)),
      stream_(std::move(stream)),
      rows_(parts.backend, parts.hidden_size),
      tables_(parts.model.num_kv_blocks()) {}

void ShardSession::Run() {
  const absl::Status status = JoinAndServe();
  Close(status.ok() ? absl::CancelledError("the session is over") : status);
}

void ShardSession::Close(const absl::Status& reason) {
  stream_->Close(reason);
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return;
    closed_ = reason;
    if (communicator_ != nullptr) communicator_->Abort(reason);
  }
  joining_.request_stop();  // now that there is a reason, which whoever stops finds
}

absl::Status ShardSession::JoinAndServe() {
  absl::StatusOr<std::unique_ptr<Communicator>> communicator =
      join_(Deadline::After(kJoinTimeout), joining_.get_token());
  if (!communicator.ok()) return JoinFailure(communicator.status());
  Communicator* joined = communicator->get();
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return closed_;
    communicator_ = *std::move(communicator);
  }
  const absl::Status met = parts_.model.Join(joined, Deadline::After(kMeetTimeout));
  if (!met.ok()) return Annotate(met, "meeting the ranks of the stage");
  parts_.clock.Begin();
  return Serve(*joined);
}

absl::Span<const uint64_t> ShardSession::ComputedByOthers(const v1::PushStep& rows) const {
  const auto all = absl::MakeConstSpan(rows.computed_ns());
  const auto num_others = static_cast<size_t>(parts_.num_stages) + 1;  // embedding and sampler
  return all.last(std::min(all.size(), num_others));
}

void ShardSession::StepBegins(const v1::ShardExecute& plan, const v1::PushStep& rows) {
  step_began_ = SteadyTime::Now();
  const absl::Span<const uint64_t> computed = ComputedByOthers(rows);
  const uint64_t sum = std::accumulate(computed.begin(), computed.end(), uint64_t{0});
  parts_.clock.StepBegins(step_began_, plan.after_idle(), absl::Nanoseconds(sum));
}

void ShardSession::StepEnds() {
  const SteadyTime now = SteadyTime::Now();
  parts_.clock.StepEnds(now);
  if (now - last_told_ < kTellEvery) return;
  last_told_ = now;
  const StepClock::Times times = parts_.clock.times();
  v1::ShardRunResponse response;
  response.mutable_times()->set_busy_ns(times.busy_ns);
  response.mutable_times()->set_gap_ns(times.gap_ns);
  response.mutable_times()->set_gap_computed_ns(times.gap_computed_ns);
  stream_->Send(std::move(response));
}

void ShardSession::SendOpened(const Plans* plans) {
  v1::ShardRunResponse response;
  SetWiring(wiring_, *response.mutable_opened());
  if (plans != nullptr) OfferLane(*stream_, *plans, wiring_, *response.mutable_opened());
  stream_->Send(std::move(response));
}

absl::Status ShardSession::Forward(const v1::ShardExecute& plan) {
  if (absl::Status known = tables_.Update(plan); !known.ok()) return known;
  segments_.clear();
  for (const v1::Segment& segment : plan.segments()) {
    segments_.push_back({.first_position = segment.first_position(),
                         .num_positions = segment.num_positions(),
                         .block_table = tables_.TableOf(segment.sequence_id()),
                         .sequence_length = segment.sequence_length()});
  }
  copies_.clear();
  for (const v1::BlockCopy& copy : plan.block_copies()) {
    copies_.push_back({.source = copy.source(), .destination = copy.destination()});
  }
  const ProgressWatch::Work work(progress(), "step", rows_.rows());
  absl::Status status = parts_.model.CopyBlocks(copies_);
  if (status.ok()) status = parts_.model.Forward(segments_, rows_.view());
  if (status.ok()) parts_.on_step();
  return status;
}

LeadSession::LeadSession(const WiringIdentity& wiring, const ShardParts& parts, JoinRanks join,
                         std::shared_ptr<Stream> stream, std::shared_ptr<grpc::Channel> next_stage)
    : ShardSession(wiring, parts, std::move(join), std::move(stream)),
      steps_(std::make_shared<Joiner>(wiring.epoch)),
      sender_(
          std::move(next_stage), wiring,
          [this](const absl::Status& status) { Stop(Annotate(status, "next stage")); },
          &parts.ring) {}

void LeadSession::Close(const absl::Status& reason) {
  Stop(reason);
  sender_.Cancel();
}

void LeadSession::Stop(const absl::Status& reason) {
  ShardSession::Close(reason);
  steps_->Close(reason);
  parts().receiver.Close(epoch(), reason);
}

absl::Status LeadSession::Serve(Communicator& communicator) {
  absl::Status status = sender_.WaitUntilOpen(SteadyTime::Now() + kOpenTimeout);
  if (!status.ok()) return Annotate(status, "next stage");
  sender_.OfferRing();
  RingIntake ring(parts().receiver, wiring(), parts().backend);
  parts().receiver.Open(wiring(), {steps_, &steps_->rows()}, RingIntake::UseOf(parts().backend));
  SendOpened(&steps_->plans());
  while (status.ok()) {
    const absl::StatusOr<v1::ShardExecute> plan = steps_->NextPlan();
    if (!plan.ok()) return plan.status();
    absl::StatusOr<v1::PushStep> rows = steps_->RowsOf(plan->step_id());
    if (!rows.ok()) return rows.status();
    StepBegins(*plan, *rows);
    status =
        Annotate(Execute(communicator, *plan, *rows, ring), absl::StrCat("step ", plan->step_id()));
    StepEnds();
  }
  return status;
}

absl::Status LeadSession::Execute(Communicator& communicator, const v1::ShardExecute& plan,
                                  v1::PushStep& step, RingIntake& ring) {
  absl::Status status = ring.reader().Load(step, rows());
  if (status.ok()) status = HandOn(communicator, plan, step, ring);
  if (status.ok()) status = Forward(plan);
  if (!status.ok()) return status;
  // The others have read theirs too: the sums of the layers needed them.
  ring.Done();
  v1::PushStep result;
  result.set_step_id(plan.step_id());
  std::optional<absl::Span<const int32_t>> output;  // all
  if (parts().is_last_stage) output = plan.output_rows();
  status = sender_.Store(rows(), output, result);
  if (!status.ok()) return status;
  for (const uint64_t computed : ComputedByOthers(step)) result.add_computed_ns(computed);
  result.add_computed_ns(
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(SteadyTime::Now() - step_began())));
  sender_.Send(std::move(result));
  return absl::OkStatus();
}

absl::Status LeadSession::HandOn(Communicator& communicator, const v1::ShardExecute& plan,
                                 v1::PushStep& step, RingIntake& ring) {
  if (communicator.size() == 1) {
    ring.OpenIfOffered();
    return absl::OkStatus();
  }
  const Deadline deadline = Deadline::After(parts().step_timeout);
  const std::optional<v1::RowRingOffer> offer = ring.TakeOffer();
  absl::Status status = SendStep(communicator, plan, step, offer, deadline);
  if (!status.ok() || !offer.has_value()) return status;
  absl::Status opened = ring.reader().Open(*offer, wiring());
  status = AgreeOnRing(communicator, opened, deadline);
  if (status.ok()) ring.OnOpened(opened);
  return status;
}

void FollowSession::AddPlan(v1::ShardRunRequest) {
  Close(absl::FailedPreconditionError("plans go to rank 0 of a stage alone"));
}

absl::Status FollowSession::Serve(Communicator& communicator) {
  SendOpened();
  RowRingReader ring(parts().backend);
  while (true) {
    v1::ShardExecute plan;
    v1::PushStep step;
    std::optional<v1::RowRingOffer> offer;
    absl::Status status = ReceiveStep(communicator, parts().step_timeout, plan, step, offer);
    if (!status.ok()) return status;
    StepBegins(plan, step);
    if (offer.has_value()) {
      absl::Status opened = ring.Open(*offer, wiring());
      status = AgreeOnRing(communicator, opened, Deadline::After(parts().step_timeout));
      if (!opened.ok()) {
        NoteRingUnused(opened);
        ring.Close();
      }
    }
    if (status.ok()) status = ring.Load(step, rows());
    if (status.ok()) status = Forward(plan);
    if (!status.ok()) return status;
    StepEnds();
  }
}

}  // namespace sluice
