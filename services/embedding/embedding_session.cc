#include "services/embedding/embedding_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/stage/stage_adapters.h"

namespace sluice {

EmbeddingSession::EmbeddingSession(const StageOpening& opening, EmbeddingTable& table,
                                   AdapterLibrary& adapters, Backend& backend, StagePeers peers)
    : table_(table),
      adapters_(adapters),
      on_step_(opening.on_step),
      port_(opening.open, opening.stream,
            {.wiring = opening.wiring,
             .memory = {.backend = backend, .hidden_size = table.row_width()},
             .peers = std::move(peers)}) {}

absl::Status EmbeddingSession::Serve() {
  table_.DropAdapters();
  absl::Status status = port_.Open();
  while (status.ok()) {
    absl::StatusOr<v1::StageExecute> plan = port_.NextPlan();
    if (!plan.ok()) return plan.status();
    status = Annotate(Execute(*plan), absl::StrCat("step ", plan->step_id()));
  }
  return status;
}

absl::Status EmbeddingSession::Execute(v1::StageExecute& step) {
  v1::EmbeddingExecute& plan = *step.mutable_embedding();
  if (plan.token_ids_size() != plan.positions_size()) {
    return absl::InvalidArgumentError(absl::StrCat(plan.token_ids_size(), " token ids with ",
                                                   plan.positions_size(), " positions"));
  }
  if (!plan.token_types().empty() && plan.token_types_size() != plan.token_ids_size()) {
    return absl::InvalidArgumentError(absl::StrCat(plan.token_ids_size(), " token ids with ",
                                                   plan.token_types_size(), " token types"));
  }
  if (!plan.adapter_slots().empty() && plan.adapter_slots_size() != plan.token_ids_size()) {
    return absl::InvalidArgumentError(absl::StrCat(plan.token_ids_size(), " token ids with ",
                                                   plan.adapter_slots_size(), " adapter slots"));
  }
  absl::Status status = TakeAdapters(
      step, adapters_,
      [&](int slot, std::shared_ptr<const AdapterSource> source) {
        table_.LoadAdapter(slot, std::move(source));
        return absl::OkStatus();
      },
      [&](int slot) { table_.DropAdapter(slot); });
  if (status.ok()) status = FillIn(step.step_id(), plan);
  if (!status.ok()) return status;
  const SteadyTime began = SteadyTime::Now();
  const ProgressWatch::Work work(progress(), "step", plan.token_ids_size());
  status = port_.rows().Resize(plan.token_ids_size());
  if (status.ok()) {
    status = table_.Embed(plan.token_ids(), plan.positions(), plan.adapter_slots(),
                          port_.rows().view(), plan.token_types());
  }
  if (!status.ok()) return status;
  const std::vector<uint64_t> computed = ComputedFor(plan);
  status = port_.Send({.step_id = step.step_id(), .computed_ns = computed, .began = began});
  if (status.ok()) on_step_();
  return status;
}

absl::Status EmbeddingSession::FillIn(uint64_t step_id, v1::EmbeddingExecute& plan) {
  for (const v1::ChosenToken& named : plan.chosen_tokens()) {
    const int32_t count = std::max(named.count(), 1);
    if (named.index() < 0 || named.index() > plan.token_ids_size() - count) {
      return absl::InvalidArgumentError(absl::StrCat("a chosen token has index ",
                                                     int64_t{named.index()} + count - 1,
                                                     "; the plan has ", plan.token_ids_size()));
    }
    if (named.step_id() >= step_id) {
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
