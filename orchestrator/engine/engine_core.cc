#include "orchestrator/engine/engine_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/process/log.h"

namespace sluice {
namespace {

constexpr absl::Duration kNotice = absl::Milliseconds(200);
// A replica that is another's says so several times a second. Where it no longer does, it is
// missing.
constexpr absl::Duration kTakenForSure = absl::Seconds(3);
// More tenants than these are not listed.
constexpr size_t kMostTenants = 64;

std::vector<TenantLedger> LedgersOf(const Tenants& accounts, const LedgerQuery& query) {
  std::vector<TenantLedger> tenants;
  for (const auto& [name, tenant] : accounts.all()) {
    if (tenant.num_alive == 0 || (query.tenant.has_value() && name != *query.tenant)) continue;
    tenants.push_back({.name = name,
                       .num_running = tenant.num_running,
                       .num_waiting = tenant.num_waiting,
                       .served = tenant.served});
  }
  std::sort(tenants.begin(), tenants.end(), [](const TenantLedger& a, const TenantLedger& b) {
    const int32_t busy = a.num_running + a.num_waiting, other = b.num_running + b.num_waiting;
    return busy != other ? busy > other : a.name < b.name;
  });
  if (tenants.size() > kMostTenants) tenants.resize(kMostTenants);
  return tenants;
}

// One is on its way while the stages compute the last; more would only stand in line before what
// comes meanwhile.
constexpr int32_t kStepsAhead = 1;

}  // namespace

EngineCore::EngineCore(EngineOptions options, Replica* replica, TextStreams* text,
                       Replica* draft_replica)
    : options_(std::move(options)),
      text_(text),
      requests_(options_.scheduler.max_queued_sequences, options_.unread_timeout, text,
                options_.max_request_work),
      speculation_(options_.speculation),
      runner_(OptionsOfRunner(replica->topology()), replica, this),
      draft_model_(draft_replica == nullptr ? nullptr : MakeDraftModel(draft_replica)),
      suspects_(options_.max_losses) {
  speculation_.UseSteps(&runner_.step_times());
  speculation_.UseModel(draft_model_.get());
}

RunnerOptions EngineCore::OptionsOfRunner(const Topology& topology) {
  RunnerOptions options;
  options.scheduler = options_.scheduler;
  options.scheduler.max_inflight_steps = topology.num_stages();
  options.scheduler.steps_ahead = kStepsAhead;
  options.scheduler.drafts = &speculation_;
  options.scheduler.tenants = &tenants_;
  options.scheduler.kv_recorder = options_.kv_events;
  options.hang_timeout = options_.hang_timeout;
  return options;
}

// It has a place for every sequence that may run, and one for a fork. Its steps are short, so that
// nobody waits long for a draft because of another's prompt.
std::unique_ptr<DraftModel> EngineCore::MakeDraftModel(Replica* replica) {
  constexpr int32_t kMostTokens = 64;
  DraftModelOptions options;
  options.scheduler = options_.scheduler;
  options.scheduler.tenant_policies = nullptr;
  options.scheduler.tenants = nullptr;
  options.scheduler.drafts = nullptr;
  options.scheduler.kv_recorder = nullptr;
  options.scheduler.max_inflight_steps = 1;  // a loss counts once
  options.scheduler.steps_ahead = 0;
  options.scheduler.max_positions = options_.draft_max_positions;
  options.scheduler.rope_length_class = options_.draft_rope_length_class;
  options.scheduler.max_sequences_per_step =
      options_.scheduler.max_sequences_per_step * runner_.replica().topology().num_stages() + 2;
  options.scheduler.max_tokens_per_step =
      std::min(options_.scheduler.max_tokens_per_step,
               std::max(kMostTokens, options.scheduler.max_sequences_per_step));
  options.hang_timeout = options_.hang_timeout;
  options.max_losses = options_.max_losses;
  return std::make_unique<DraftModel>(
      options, replica,
      DraftModelOwner{
          .describe_row = [this](SequenceId sequence) { return requests_.DraftRowFor(sequence); },
          .goes_on =
              [this](SequenceId sequence, absl::Span<const DraftToken> proposal) {
                return speculation_.GoesOn(sequence, proposal);
              }});
}

void EngineCore::Submit(RequestId id, EngineRequest request, std::shared_ptr<RequestSink> sink) {
  if (!standby_.ok()) return sink->OnFailed(standby_);
  PublishPrompt(request);
  requests_.Add(id, std::move(request), std::move(sink));
}

void EngineCore::PublishPrompt(const EngineRequest& request) {
  if (options_.kv_events == nullptr || scheduler() == nullptr || !request.use_prefix_cache ||
      request.prompt_keys == nullptr) {
    return;
  }
  const PrefixDomain domain = scheduler()->options().DomainOf(
      request.cache_salt, request.adapter, static_cast<int32_t>(request.prompt.size()));
  options_.kv_events->Expect(DomainKey(scheduler()->kv_cache().model_key(), domain.salt,
                                       domain.adapter, domain.length_like),
                             request.prompt, *request.prompt_keys, CacheScope(request.cache_salt));
}

// What is not admitted yet waits as well.
EngineLoad EngineCore::LoadNow() const {
  EngineLoad load = {.serving = runner_.ready(),
                     .num_waiting_requests = requests_.counts().waiting};
  if (scheduler() == nullptr) return load;
  const SchedulerStatistics statistics = scheduler()->statistics();
  load.num_waiting_requests += statistics.waiting_sequences;
  load.num_running_requests = statistics.running_sequences;
  load.num_waiting_tokens = statistics.waiting_positions;
  load.num_held_tokens = int64_t{statistics.kv_cache.used_blocks} * statistics.kv_cache.block_size;
  load.num_available_blocks = scheduler()->kv_cache().num_available_blocks();
  return load;
}

void EngineCore::Cancel(RequestId id) {
  requests_.Cancel(id);
  suspects_.Clear(id);
}

void EngineCore::BillWork(const std::string& tenant, absl::Duration work) {
  Scheduler* const scheduler = runner_.scheduler();
  if (scheduler != nullptr) scheduler->BillTime(tenant, absl::ToDoubleSeconds(work));
}

SteadyTime EngineCore::Advance(SteadyTime now) {
  requests_.SetTime(now);
  speculation_.SetTime(now.since_start());
  if (draft_model_ != nullptr) draft_model_->Advance(now);
  runner_.Advance(now);
  TellHolding(now);
  // The stages first: they compute the next step while clients are told of the last.
  SendSteps(now);
  TellRequests();
  if (text_ != nullptr) {
    text_->Advance(now);
    for (TextStreams::Answer& answer : text_->TakeAnswers()) requests_.OnText(std::move(answer));
  }
  ExpireDeadlines(now);
  requests_.ExpireUnread();
  SendSteps(now);  // what was told or has expired may have made room
  RecordEnded();
  CheckIntegrity(now);
  SteadyTime wake = std::min({runner_.NextWake(), requests_.timeouts().next_unread(),
                              requests_.timeouts().next_deadline() + -NoticeBeforeDeadline()});
  if (draft_model_ != nullptr) {
    const SteadyTime waited = SteadyTime::FromStart(speculation_.NextTimeout());
    wake = std::min({wake, draft_model_->NextWake(), waited});
  }
  if (options_.kv_events != nullptr) {
    options_.kv_events->Advance(now, LoadNow());
    wake = std::min(wake, options_.kv_events->NextWake());
  }
  if (IntegrityIsDue()) wake = std::min(wake, next_integrity_check_);
  if (text_ != nullptr) wake = std::min(wake, text_->NextWake());
  return std::max(wake, now);
}

// Those of the draft model last: who waits for a draft has asked for it by then.
void EngineCore::SendSteps(SteadyTime now) {
  SendTargetSteps(now);
  if (draft_model_ != nullptr) draft_model_->SendSteps(now);
}

void EngineCore::SendTargetSteps(SteadyTime now) {
  while (runner_.CanSend() && ApplyQuarantine()) {
    runner_.SendSteps(now);
    if (!running_alone_.has_value() || !runner_.idle() || runner_.awaits_returns()) return;
    suspects_.Release(*running_alone_);
  }
}

bool EngineCore::ApplyQuarantine() {
  const std::optional<RequestId> isolated_request = suspects_.isolated_request();
  if (isolated_request == running_alone_) return true;
  if (isolated_request.has_value() && !runner_.idle()) return false;
  running_alone_ = isolated_request;
  runner_.scheduler()->PlanOnly(isolated_request);
  return true;
}

void EngineCore::TellRequests() {
  const std::vector<RequestId> moved = requests_.TellOfSteps();
  if (suspects_.empty()) return;
  for (const RequestId id : moved) suspects_.Clear(id);
}

std::vector<RequestId> EngineCore::OwnersOf(absl::Span<const SequenceId> sequences) {
  std::vector<RequestId> owners;
  for (const SequenceId sequence : sequences) {
    const ActiveRequest* const owner = requests_.OwnerOf(sequence);
    if (owner != nullptr) owners.push_back(owner->id());
  }
  std::sort(owners.begin(), owners.end());
  owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
  return owners;
}

void EngineCore::TellServing() {
  if (options_.on_serving_changed != nullptr) options_.on_serving_changed(runner_.ready());
}

// A client's own clock ends the call at its deadline. Where the stages are not ready it should hear
// which is missing: a moment before.
absl::Duration EngineCore::NoticeBeforeDeadline() const {
  return runner_.ready() ? absl::ZeroDuration() : kNotice;
}

absl::Status EngineCore::NotReady() const {
  for (const ReplicaProcess& process : *runner_.replica().processes()) {
    if (process.ready) continue;
    return absl::UnavailableError(absl::StrCat("the pipeline is not ready: ", process.service(),
                                               " at ", process.address, ": ", process.detail));
  }
  return absl::UnavailableError("the pipeline is not ready");
}

void EngineCore::ExpireDeadlines(SteadyTime now) {
  const SteadyTime due = now + NoticeBeforeDeadline();
  if (requests_.timeouts().next_deadline() > due) return;
  requests_.ExpireDeadlines(
      due, runner_.ready() ? absl::DeadlineExceededError("the request's deadline has passed")
                           : NotReady());
}

void EngineCore::Shutdown() {
  requests_.FailAll(absl::UnavailableError("the orchestrator is shutting down"));
  RecordEnded();
}

void EngineCore::RecordEnded() {
  for (RequestLedger& ended : requests_.TakeEnded()) {
    if (options_.observer != nullptr) options_.observer->OnRequestEnded(ended);
    history_.Add(std::move(ended));
  }
}

bool EngineCore::IntegrityIsDue() const {
  return runner_.scheduler() != nullptr && runner_.idle() &&
         runner_.num_steps() != num_steps_checked_;
}

void EngineCore::CheckIntegrity(SteadyTime now) {
  if (now < next_integrity_check_ || !IntegrityIsDue()) return;
  next_integrity_check_ = now + options_.integrity_interval;
  num_steps_checked_ = runner_.num_steps();
  ++num_integrity_checks_;
  absl::Status found = runner_.scheduler()->CheckIntegrity();
  if (found.ok() && draft_model_ != nullptr) found = draft_model_->CheckIntegrity();
  if (found.ok()) return;
  ++num_integrity_faults_;
  Log(LogLevel::kError, "orchestrator", "integrity-check-failed",
      {{"former_event", "books-are-wrong"}, {"status", found.ToString()}});
}

LedgerReport EngineCore::Report(const LedgerQuery& query, SteadyTime now) const {
  LedgerReport report = {.now = now, .requests = requests_.Ledgers(query), .tenants = {}};
  history_.Find(query, report.requests);
  if (query.all) report.tenants = LedgersOf(tenants_, query);
  return report;
}

const RunnerStatus* EngineStatus::draft() const {
  const auto found = std::find_if(runners.begin(), runners.end(), [](const RunnerStatus& runner) {
    return runner.role == RunnerRole::kDraft;
  });
  return found == runners.end() ? nullptr : &*found;
}

EngineStatus EngineCore::status() const {
  EngineStatus status = {.runners = {runner_.status()}};
  status.num_unadmitted_requests = requests_.counts().waiting;
  status.num_generated_tokens = requests_.counts().generated_tokens;
  status.num_integrity_checks = num_integrity_checks_;
  status.num_integrity_faults = num_integrity_faults_;
  status.estimated_wait = requests_.EstimateWait("");
  if (draft_model_ == nullptr) return status;
  status.runners.push_back(draft_model_->status());
  status.num_proposed_tokens = draft_model_->num_proposed_tokens();
  return status;
}

// ---- Steps of the served model ----

void EngineCore::DescribeRows(const Step& step, std::vector<RowRequest>& rows) {
  requests_.OnSent(step, rows);
}

void EngineCore::OnExecuted(const StepSample& sample) {
  if (options_.observer != nullptr) {
    options_.observer->OnStep(sample.busy, sample.positions, sample.sequences);
  }
  if (options_.kv_events != nullptr) options_.kv_events->OnStep(sample.busy, sample.positions);
  if (sample.goes_by_rows()) speculation_.OnStep();
}

void EngineCore::OnMaskWork(SequenceId sequence, absl::Duration work) {
  requests_.AddWork(sequence, work);
}

void EngineCore::OnCommitted(StepOutcome outcome, std::vector<RowResult> rows) {
  for (const AcceptedRow& accepted : outcome.rows) {
    RowResult& row = rows[accepted.row];
    const int32_t position = accepted.position + 1;
    if (!row.forced.empty()) {
      speculation_.OnForced(accepted.sequence, position, std::move(row.forced));
    } else if (!row.likely.empty()) {
      speculation_.OnLikely(accepted.sequence, position, row.likely);
    }
  }
  requests_.OnCommitted(std::move(outcome), std::move(rows));
}

// Time that went to drafts is counted for itself.
bool EngineCore::HeldBackSince(SteadyTime since) const {
  return speculation_.WaitedSince(since.since_start());
}

// ---- What becomes of its replica ----

void EngineCore::OnReady() {
  standby_ = absl::OkStatus();
  taken_since_ = last_taken_ = lost_since_ = std::nullopt;
  requests_.UseScheduler(runner_.scheduler(), &runner_.step_times());
  requests_.OnReplica(RequestEvent::Kind::kReplicaBack);
  TellServing();
}

// Tokens do not depend on the size of the pool: what fits the new one is computed again there. A
// request without max_tokens ends where the pool does.
void EngineCore::OnResized(const KvGeometry& geometry, int32_t num_blocks_before,
                           absl::Span<const SequenceId> too_large) {
  int num_failed = 0;
  for (const SequenceId sequence : too_large) {
    ActiveRequest* const owner = requests_.OwnerOf(sequence);
    if (owner == nullptr) continue;  // of a request that has failed
    const EngineRequest& request = owner->request();
    const bool may_end_sooner = !request.max_new_tokens.has_value() && !request.beams.has_value();
    if (may_end_sooner && runner_.scheduler()->Shorten(sequence)) continue;
    ++num_failed;
    requests_.Fail(owner->id(),
                   absl::AbortedError(absl::StrCat(
                       "the shards came back with ", geometry.num_blocks, " blocks of ",
                       geometry.block_size, " positions, instead of ", num_blocks_before,
                       ", which can't hold the answer: ask again with fewer max_tokens")));
  }
  Log(LogLevel::kWarning, "orchestrator", "pool-resized",
      {{"kv_blocks", geometry.num_blocks},
       {"before", num_blocks_before},
       {"requests", requests_.counts().served},
       {"failed", num_failed}});
}

// What was begun can't go on, or not with the same bits; what comes from now on is served.
void EngineCore::OnChanged(const std::string& change) {
  Log(LogLevel::kWarning, "orchestrator", "replica-changed",
      {{"change", change}, {"requests", requests_.counts().served}});
  requests_.FailAll(absl::AbortedError(
      absl::StrCat(change, ": the answer could not go on as it began; ask again")));
  suspects_.KeepOnly([](RequestId) { return false; });
  running_alone_.reset();
}

// Clients go on there: what they need for that they have. What has come to a successor before it
// had the replica waits for it.
void EngineCore::OnStandby(const absl::Status& status, SteadyTime now) {
  // Again after a while: an update that was stopped may go on.
  const bool is_news = !last_taken_.has_value() || now - *last_taken_ >= kTakenForSure ||
                       now - *taken_since_ >= 2 * options_.hold_time;
  if (is_news) {
    taken_since_ = now;
    standby_ = absl::OkStatus();
  }
  last_taken_ = now;
  if (Holds(now)) return;
  standby_ =
      absl::UnavailableError(absl::StrCat("this orchestrator stands by: ", status.message()));
  requests_.FailAll(standby_);
}

bool EngineCore::Holds(SteadyTime now) const {
  if (runner_.ready() || options_.hold_time <= absl::ZeroDuration() || !standby_.ok()) return false;
  if (lost_since_.has_value()) {
    return !taken_since_.has_value() && now - *lost_since_ < options_.hold_time;
  }
  return scheduler() == nullptr && last_taken_.has_value() && now - *last_taken_ < kTakenForSure &&
         now - *taken_since_ < options_.hold_time;
}

void EngineCore::TellHolding(SteadyTime now) {
  const bool holding = Holds(now);
  if (std::exchange(holding_, holding) == holding) return;
  if (options_.on_holding_changed != nullptr) options_.on_holding_changed(holding);
}

void EngineCore::OnLost(const absl::Status& status, absl::Span<const SequenceId> in_flight,
                        SteadyTime now) {
  lost_since_ = now;
  TellRequests();  // what moved before the loss counts as moved
  Log(LogLevel::kWarning, "orchestrator", "replica-lost",
      {{"epoch", runner_.epoch()},
       {"status", status.ToString()},
       {"requests", requests_.counts().served}});
  requests_.OnReplica(RequestEvent::Kind::kReplicaLost);
  TellServing();
  suspects_.KeepOnly([this](RequestId id) { return requests_.Find(id) != nullptr; });
  const std::optional<RequestId> convicted = suspects_.OnLoss(OwnersOf(in_flight));
  if (!convicted.has_value()) return;
  requests_.Fail(
      *convicted,
      absl::InternalError(absl::StrCat(
          "the model was lost ", suspects_.num_losses(*convicted),
          " times over this request, at last with no other under way: ", status.ToString())));
  suspects_.Clear(*convicted);
}

}  // namespace sluice
