#include "services/embedding/embedding_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"

namespace sluice {

EmbeddingSession::EmbeddingSession(const v1::EmbeddingOpen& open, const WiringIdentity& wiring,
                                   Peers peers, std::shared_ptr<Stream> stream,
                                   EmbeddingTable& table, Backend& backend, RowRing& ring,
                                   std::function<void()> on_step)
    : table_(table),
      on_step_(std::move(on_step)),
      port_(open, std::move(stream),
            {.wiring = wiring,
             .memory = {.backend = backend, .hidden_size = table.row_width()},
             .peers = {.next_stage = std::move(peers.next_stage),
                       .ring = &ring,
                       .sampler = std::move(peers.sampler),
                       .sampler_lane = peers.sampler_lane}}) {}

void EmbeddingSession::Run() { port_.Finish(Serve()); }

absl::Status EmbeddingSession::Serve() {
  absl::Status status = port_.Open();
  while (status.ok()) {
    absl::StatusOr<v1::EmbeddingExecute> plan = port_.NextPlan();
    if (!plan.ok()) return plan.status();
    status = Annotate(Execute(*plan), absl::StrCat("step ", plan->step_id()));
  }
  return status;
}

absl::Status EmbeddingSession::Execute(v1::EmbeddingExecute& plan) {
  if (plan.token_ids_size() != plan.positions_size()) {
    return absl::InvalidArgumentError(absl::StrCat(plan.token_ids_size(), " token ids with ",
                                                   plan.positions_size(), " positions"));
  }
  if (!plan.token_types().empty() && plan.token_types_size() != plan.token_ids_size()) {
    return absl::InvalidArgumentError(absl::StrCat(plan.token_ids_size(), " token ids with ",
                                                   plan.token_types_size(), " token types"));
  }
  absl::Status status = FillIn(plan);
  if (!status.ok()) return status;
  const SteadyTime began = SteadyTime::Now();
  const ProgressWatch::Work work(progress(), "step", plan.token_ids_size());
  status = port_.rows().Resize(plan.token_ids_size());
  if (status.ok()) {
    status =
        table_.Embed(plan.token_ids(), plan.positions(), port_.rows().view(), plan.token_types());
  }
  if (!status.ok()) return status;
  const std::vector<uint64_t> computed = ComputedFor(plan);
  status = port_.Send({.step_id = plan.step_id(), .computed_ns = computed, .began = began});
  if (status.ok()) on_step_();
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
    const absl::Status status = port_.TokensOf(
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
  return port_.ComputedFor(latest);
}

}  // namespace sluice
