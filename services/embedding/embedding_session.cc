#include "services/embedding/embedding_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/messages/wiring_message.h"
#include "services/stage/lane_offer.h"

namespace sluice {
namespace {

constexpr absl::Duration kOpenTimeout = absl::Seconds(10);

}  // namespace

EmbeddingSession::EmbeddingSession(const WiringIdentity& wiring, Peers peers,
                                   std::shared_ptr<Stream> stream, EmbeddingTable& table,
                                   Backend& backend, RowRing& ring, std::function<void()> on_step)
    : wiring_(wiring),
      stream_(std::move(stream)),
      table_(table),
      on_step_(std::move(on_step)),
      rows_(backend, table.hidden_size()),
      chosen_(
          std::move(peers.sampler), wiring,
          [this](const absl::Status& status) { Stop(Annotate(status, "sampler")); },
          peers.sampler_lane),
      sender_(
          std::move(peers.next_stage), wiring,
          [this](const absl::Status& status) {
            Stop(Annotate(status, "next stage"));
            chosen_.Cancel();  // a plan may wait for a token
          },
          &ring) {}

void EmbeddingSession::Run() {
  const absl::Status status = Serve();
  if (!status.ok()) Close(status);
}

void EmbeddingSession::Close(const absl::Status& reason) {
  Stop(reason);
  sender_.Cancel();
  chosen_.Cancel();
}

void EmbeddingSession::Stop(const absl::Status& reason) {
  stream_->Close(reason);
  plans_.Close(reason);
}

absl::Status EmbeddingSession::Open() {
  const SteadyTime deadline = SteadyTime::Now() + kOpenTimeout;
  absl::Status status = Annotate(sender_.WaitUntilOpen(deadline), "next stage");
  if (status.ok()) status = Annotate(chosen_.WaitUntilOpen(deadline), "sampler");
  if (!status.ok()) return status;
  sender_.OfferRing();
  v1::EmbeddingRunResponse response;
  SetWiring(wiring_, *response.mutable_opened());
  OfferLane(*stream_, plans_, wiring_, *response.mutable_opened());
  stream_->Send(std::move(response));
  return absl::OkStatus();
}

absl::Status EmbeddingSession::Serve() {
  absl::Status status = Open();
  while (status.ok()) {
    absl::StatusOr<v1::EmbeddingRunRequest> request = plans_.Next();
    if (!request.ok()) return request.status();
    if (!request->has_execute()) return absl::InvalidArgumentError("a request without a plan");
    v1::EmbeddingExecute& plan = *request->mutable_execute();
    status = Annotate(Execute(plan), absl::StrCat("step ", plan.step_id()));
  }
  return status;
}

absl::Status EmbeddingSession::FillIn(v1::EmbeddingExecute& plan) {
  for (const v1::ChosenToken& named : plan.chosen_tokens()) {
    const int32_t count = std::max(named.count(), 1);
    if (named.index() < 0 || named.index() > plan.token_ids_size() - count) {
      return absl::InvalidArgumentError(absl::StrCat("a chosen token has index ",
                                                     int64_t{named.index()} + count - 1,
                                                     "; the plan has ", plan.token_ids_size()));
    }
    if (named.step_id() >= plan.step_id()) {
      return absl::InvalidArgumentError(absl::StrCat("a token is to be chosen by step ",
                                                     named.step_id(), ", which is no earlier"));
    }
    const absl::Status status = chosen_.TokensOf(
        named.step_id(), named.row(),
        absl::MakeSpan(plan.mutable_token_ids()->mutable_data() + named.index(), count));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// By the latest of the steps whose tokens it names. A plan that names none goes on with what the
// orchestrator knew by the newest one, or begins something.
std::vector<uint64_t> EmbeddingSession::ComputedFor(const v1::EmbeddingExecute& plan) {
  uint64_t latest = 0;
  for (const v1::ChosenToken& named : plan.chosen_tokens()) {
    latest = std::max(latest, named.step_id());
  }
  return chosen_.ComputedFor(latest);
}

absl::Status EmbeddingSession::Execute(v1::EmbeddingExecute& plan) {
  if (plan.token_ids_size() != plan.positions_size()) {
    return absl::InvalidArgumentError(absl::StrCat(plan.token_ids_size(), " token ids with ",
                                                   plan.positions_size(), " positions"));
  }
  absl::Status status = FillIn(plan);
  if (!status.ok()) return status;
  const SteadyTime begin = SteadyTime::Now();
  const ProgressWatch::Work work(progress(), "step", plan.token_ids_size());
  status = rows_.Resize(plan.token_ids_size());
  if (!status.ok()) return status;
  status = table_.Embed(plan.token_ids(), plan.positions(), rows_.view());
  if (!status.ok()) return status;
  v1::PushStep step;
  step.set_step_id(plan.step_id());
  status = sender_.Store(rows_, std::nullopt, step);
  if (!status.ok()) return status;
  for (const uint64_t computed : ComputedFor(plan)) step.add_computed_ns(computed);
  step.add_computed_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(SteadyTime::Now() - begin)));
  sender_.Send(std::move(step));
  on_step_();
  return absl::OkStatus();
}

}  // namespace sluice
