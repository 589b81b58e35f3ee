#include "orchestrator/api/status_message.h"

#include <algorithm>

#include "services/common/utf8_text.h"

namespace sluice {
namespace {

v1::RequestState ToProto(RequestPhase phase) {
  switch (phase) {
    case RequestPhase::kWaiting:
      return v1::REQUEST_STATE_WAITING;
    case RequestPhase::kRunning:
      return v1::REQUEST_STATE_RUNNING;
    case RequestPhase::kPaused:
      return v1::REQUEST_STATE_PAUSED;
    case RequestPhase::kEnded:
      return v1::REQUEST_STATE_ENDED;
  }
  return v1::REQUEST_STATE_UNSPECIFIED;
}

void Fill(const RecomputedPositions& recomputed, v1::RecomputedPositions& message) {
  message.set_after_preemption(recomputed.after_preemption);
  message.set_after_loss(recomputed.after_loss);
  message.set_after_growth(recomputed.after_growth);
  message.set_after_pause(recomputed.after_pause);
}

void Fill(const SequenceLedger& sequence, v1::SequenceStatus& message) {
  const SequenceUsage& usage = sequence.usage;
  message.set_state(ToProto(sequence.phase));
  message.set_num_prompt_tokens(usage.prompt_tokens);
  message.set_num_generated_tokens(usage.generated_tokens);
  message.set_num_held_blocks(sequence.blocks.held);
  message.set_num_shared_blocks(sequence.blocks.shared);
  message.set_num_states(sequence.blocks.states);
  message.set_num_copied_blocks(usage.copied_blocks);
  message.set_num_evicted_blocks(usage.evicted_blocks);
  message.set_num_preemptions(usage.preemptions);
  message.set_num_computed_positions(usage.computed_positions);
  message.set_num_hit_positions(usage.cached_positions);
  message.set_num_shared_positions(usage.shared_positions);
  Fill(usage.recomputed, *message.mutable_recomputed());
  message.set_num_drafted_tokens(usage.drafted_tokens);
  message.set_num_accepted_draft_tokens(usage.accepted_drafts);
}

uint64_t Milliseconds(absl::Duration duration) {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToInt64Milliseconds(duration), 0));
}

void Fill(const RequestLedger& request, SteadyTime now, v1::RequestStatus& message) {
  message.set_request_id(request.name);
  message.set_tenant(CleanUtf8(request.tenant));
  message.set_priority(request.priority);
  message.set_state(ToProto(request.phase));
  message.set_outcome(request.outcome);
  message.set_detail(CleanUtf8(request.detail));
  const RequestTimes& times = request.times;
  if (times.arrived.has_value()) {
    message.set_age_ms(Milliseconds(times.ended.value_or(now) - *times.arrived));
    if (times.started.has_value()) {
      message.set_queue_ms(Milliseconds(*times.started - *times.arrived));
    }
    if (times.first_token.has_value()) {
      message.set_first_token_ms(Milliseconds(*times.first_token - *times.arrived));
    }
  }
  for (const SequenceLedger& sequence : request.sequences) {
    v1::SequenceStatus& added = *message.add_sequences();
    added.set_sequence(message.sequences_size() - 1);
    Fill(sequence, added);
  }
}

void Fill(const KvCacheStatistics& kv_cache, v1::KvCacheStatus& blocks) {
  blocks.set_block_size(kv_cache.block_size);
  blocks.set_num_blocks(kv_cache.total_blocks);
  blocks.set_num_used_blocks(kv_cache.used_blocks);
  blocks.set_num_free_blocks(kv_cache.free_blocks);
  blocks.set_num_cached_blocks(kv_cache.cached_blocks);
  blocks.set_num_shared_blocks(kv_cache.shared_blocks);
  blocks.set_num_hit_positions(kv_cache.hit_positions);
  blocks.set_num_copied_blocks(kv_cache.copied_blocks);
  blocks.set_num_evicted_blocks(kv_cache.evicted_blocks);
  blocks.set_num_states(kv_cache.total_states);
  blocks.set_num_used_states(kv_cache.used_states);
  blocks.set_num_cached_states(kv_cache.cached_states);
  blocks.set_num_evicted_states(kv_cache.evicted_states);
}

v1::ReplicaRole ToProto(RunnerRole role) {
  switch (role) {
    case RunnerRole::kTarget:
      return v1::REPLICA_ROLE_TARGET;
    case RunnerRole::kDraft:
      return v1::REPLICA_ROLE_DRAFT;
  }
  return v1::REPLICA_ROLE_UNSPECIFIED;
}

void Fill(const ReplicaProcess& process, RunnerRole role, v1::ProcessStatus& message) {
  message.set_service(process.service());
  message.set_role(ToProto(role));
  message.set_address(process.address);
  message.set_state(process.ready ? v1::PROCESS_STATE_READY : v1::PROCESS_STATE_CONNECTING);
  message.set_stage(process.stage);
  message.set_rank(process.rank);
  message.set_detail(CleanUtf8(process.detail));
  message.set_weight_bytes(process.weight_bytes);
  message.set_kv_bytes(process.kv_bytes);
  message.set_arithmetic(process.arithmetic);
  message.set_busy_us(static_cast<uint64_t>(absl::ToInt64Microseconds(process.busy)));
  message.set_gap_us(static_cast<uint64_t>(absl::ToInt64Microseconds(process.gap)));
  message.set_gap_computed_us(
      static_cast<uint64_t>(absl::ToInt64Microseconds(process.gap_computed)));
}

void Fill(const RunnerStatus& status, v1::ReplicaStatus& message) {
  message.set_name(NameOf(status.role));
  message.set_role(ToProto(status.role));
  message.set_ready(status.ready);
  message.set_epoch(status.epoch);
  Fill(status.scheduler.kv_cache, *message.mutable_kv_cache());
  for (const ReplicaProcess& process : *status.processes) {
    Fill(process, status.role, *message.add_processes());
  }
  message.set_num_running_sequences(status.scheduler.running_sequences);
  message.set_num_waiting_sequences(status.scheduler.waiting_sequences);
  message.set_num_paused_sequences(status.scheduler.paused_sequences);
  message.set_num_steps(status.num_steps);
  message.set_num_hangs(status.num_hangs);
  message.set_num_recoveries(status.num_recoveries);
  message.set_num_recoveries_with_blocks(status.num_recoveries_with_blocks);
}

void FillDraftModel(const RunnerStatus& status, uint64_t num_proposed,
                    v1::DraftModelStatus& message) {
  const SchedulerStatistics& scheduler = status.scheduler;
  message.set_ready(status.ready);
  message.set_epoch(status.epoch);
  Fill(scheduler.kv_cache, *message.mutable_kv_cache());
  message.set_num_sequences(scheduler.waiting_sequences + scheduler.running_sequences +
                            scheduler.paused_sequences);
  message.set_num_steps(status.num_steps);
  message.set_num_proposed_tokens(num_proposed);
  message.set_num_recoveries(status.num_recoveries);
}

void FillTarget(const RunnerStatus& target, v1::GetStatusResponse& response) {
  const SchedulerStatistics& scheduler = target.scheduler;
  response.set_serving(target.ready);
  response.set_epoch(target.epoch);
  Fill(scheduler.kv_cache, *response.mutable_kv_cache());
  response.set_num_running_sequences(scheduler.running_sequences);
  response.set_num_paused_sequences(scheduler.paused_sequences);
  response.set_num_steps(target.num_steps);
  response.set_num_recoveries(target.num_recoveries);
  response.set_num_preemptions(scheduler.preemptions);
  response.set_num_computed_positions(scheduler.computed_positions);
  Fill(scheduler.recomputed, *response.mutable_recomputed());
  response.set_num_drafted_tokens(scheduler.drafted_tokens);
  response.set_num_accepted_draft_tokens(scheduler.accepted_drafts);
}

void HideLocations(const ClientErrors& errors,
                   google::protobuf::RepeatedPtrField<v1::ProcessStatus>& processes) {
  for (v1::ProcessStatus& process : processes) {
    process.clear_address();
    process.set_detail(errors.Detail(process.detail()));
  }
}

}  // namespace

void HideLocations(const ClientErrors& errors, v1::GetStatusResponse& response) {
  HideLocations(errors, *response.mutable_processes());
  for (v1::ReplicaStatus& replica : *response.mutable_replicas()) {
    HideLocations(errors, *replica.mutable_processes());
  }
}

void FillStatus(const EngineStatus& status, v1::GetStatusResponse& response) {
  FillTarget(status.target(), response);
  for (const RunnerStatus& runner : status.runners) {
    Fill(runner, *response.add_replicas());
    for (const ReplicaProcess& process : *runner.processes) {
      v1::ProcessStatus& message = *response.add_processes();
      Fill(process, runner.role, message);
      message.set_service(ServiceName(runner.role, process.service()));
    }
  }
  if (const RunnerStatus* const draft = status.draft(); draft != nullptr) {
    FillDraftModel(*draft, status.num_proposed_tokens, *response.mutable_draft_model());
  }
  response.set_num_waiting_sequences(status.target().scheduler.waiting_sequences +
                                     status.num_unadmitted_requests);
  response.set_num_generated_tokens(status.num_generated_tokens);
  response.set_num_integrity_checks(status.num_integrity_checks);
  response.set_num_integrity_faults(status.num_integrity_faults);
  if (status.estimated_wait.has_value()) {
    response.set_estimated_wait_ms(Milliseconds(*status.estimated_wait));
  }
}

void FillLedger(const LedgerReport& report, v1::GetStatusResponse& response) {
  for (const RequestLedger& request : report.requests) {
    Fill(request, report.now, *response.add_requests());
  }
  for (const TenantLedger& tenant : report.tenants) {
    v1::TenantStatus& message = *response.add_tenants();
    message.set_name(tenant.name);
    message.set_num_running_sequences(tenant.num_running);
    message.set_num_waiting_sequences(tenant.num_waiting);
    message.set_served(tenant.served);
  }
}

}  // namespace sluice
