#include "orchestrator/engine/request_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/messages/error_reason.h"
#include "services/messages/retry_info.h"
#include "services/work/work_owner.h"

namespace sluice {

namespace {

// When a refused client should come again where nobody knows how fast the line moves, and the
// soonest and latest otherwise.
constexpr absl::Duration kUnknownDelay = absl::Seconds(1);
constexpr absl::Duration kLeastDelay = absl::Milliseconds(100);
constexpr absl::Duration kMostDelay = absl::Minutes(1);

// An estimate of work that is so many times the time left may still be wrong.
constexpr double kEstimateMargin = 1.25;

RequestPhase PhaseOf(SequencePhase phase) {
  switch (phase) {
    case SequencePhase::kWaiting:
      return RequestPhase::kWaiting;
    case SequencePhase::kRunning:
      return RequestPhase::kRunning;
    case SequencePhase::kPaused:
      return RequestPhase::kPaused;
  }
  return RequestPhase::kWaiting;
}

}  // namespace

RequestTable::RequestTable(int32_t max_waiting, absl::Duration unread_timeout, TextStreams* text,
                           absl::Duration max_work)
    : max_waiting_(max_waiting),
      unread_timeout_(unread_timeout),
      max_work_(max_work),
      text_(text) {}

void RequestTable::SetTime(SteadyTime now) {
  now_ = now;
  if (scheduler_ == nullptr) return;
  const SchedulerStatistics statistics = scheduler_->statistics();
  rate_.Observe(now, statistics.started_sequences, statistics.waiting_sequences);
}

void RequestTable::OnReplica(RequestEvent::Kind kind) {
  for (const auto& [id, request] : requests_)
    request->record().AddEvent({.kind = kind, .time = now_});
}

ActiveRequest* RequestTable::Find(RequestId id) {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second.get();
}

ActiveRequest* RequestTable::OwnerOf(SequenceId sequence) {
  const auto found = places_.find(sequence);
  return found == places_.end() || !found->second.scheduled ? nullptr : found->second.request;
}

std::optional<RowRequest> RequestTable::DraftRowFor(SequenceId sequence) const {
  const auto place = places_.find(sequence);
  if (place == places_.end()) return std::nullopt;
  return place->second.request->DraftRowFor(place->second.index);
}

// ---- Coming ----

void RequestTable::Add(RequestId id, EngineRequest request, std::shared_ptr<RequestSink> sink) {
  if (request.deadline.has_value()) timeouts_.SetDeadline(id, *request.deadline);
  if (scheduler_ == nullptr) {
    Wait(id, std::move(request), std::move(sink));
  } else {
    Activate(id, std::move(request), std::move(sink));
  }
}

void RequestTable::Wait(RequestId id, EngineRequest request, std::shared_ptr<RequestSink> sink) {
  if (std::ssize(waiting_) >= max_waiting_) {
    ForgetDeadline(id, request);
    const absl::Status refused = WithRetryDelay(
        absl::ResourceExhaustedError(absl::StrCat("the model is not ready and ", waiting_.size(),
                                                  " requests wait for it already")),
        kUnknownDelay);
    RecordUnserved(request, refused);
    return sink->OnFailed(refused);
  }
  waiting_.emplace(id, Waiting{std::move(request), std::move(sink)});
}

void RequestTable::Activate(RequestId id, EngineRequest request,
                            std::shared_ptr<RequestSink> sink) {
  std::vector<SequenceId> ids(request.num_sequences);
  for (SequenceId& sequence : ids) sequence = next_sequence_++;
  TextStreams* text = request.wants_text ? text_ : nullptr;
  auto active = std::make_unique<ActiveRequest>(id, std::move(request), ids, std::move(sink), text);
  ActiveRequest& added = *requests_.emplace(id, std::move(active)).first->second;
  for (size_t i = 0; i < ids.size(); ++i) places_[ids[i]] = {&added, static_cast<int>(i)};
  const absl::Status status = AddSequences(added);
  if (!status.ok()) return Fail(id, status);
  RemoveIfOver(added);
}

std::optional<absl::Duration> RequestTable::EstimateWait(const std::string& tenant) const {
  if (scheduler_ == nullptr) return std::nullopt;
  return rate_.TimeFor(scheduler_->StartsAhead(tenant));
}

// Better an answer now than none at the deadline.
absl::Status RequestTable::RejectIfDeadlineUnreachable(const ActiveRequest& request,
                                                       int32_t max_new_tokens) const {
  const std::optional<SteadyTime>& deadline = request.request().deadline;
  if (!deadline.has_value()) return absl::OkStatus();
  const absl::Duration left = *deadline - now_;
  if (left <= absl::ZeroDuration()) return absl::OkStatus();  // it is late already and ends as such
  const absl::Duration wait = EstimateWait(request.request().tenant).value_or(absl::ZeroDuration());
  const int32_t num_positions = scheduler_->NumToCompute(request.SpecOf(0, max_new_tokens));
  const absl::Duration work =
      step_times_->TimeFor(num_positions, FewestTokens(request.request(), max_new_tokens));
  const bool waits_too_long = wait > left;
  if (!waits_too_long && wait + work <= kEstimateMargin * left) return absl::OkStatus();
  const absl::Duration late = (waits_too_long ? wait : wait + work) - left;
  const auto shown = [](absl::Duration time) {
    return absl::FormatDuration(absl::Trunc(time, kLeastDelay));
  };
  return WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat(
          waits_too_long ? "the request's turn would come in " : "the request would end in ",
          shown(left + late), waits_too_long ? "" : " at the soonest", ", after its deadline in ",
          shown(left))),
      std::clamp(late, kLeastDelay, kMostDelay));
}

// Once half of those ahead have had their turn, there is room for many.
absl::Status RequestTable::WithRetryAfter(const absl::Status& status,
                                          const std::string& tenant) const {
  if (status.code() != absl::StatusCode::kResourceExhausted) return status;
  if (RetryDelay(status).has_value()) return status;
  const std::optional<absl::Duration> wait = EstimateWait(tenant);
  return WithRetryDelay(
      status, wait.has_value() ? std::clamp(*wait / 2, kLeastDelay, kMostDelay) : kUnknownDelay);
}

absl::Status RequestTable::AddSequences(ActiveRequest& request) {
  const int32_t max_new_tokens = MaxNewTokens(request.request());
  absl::Status in_time = RejectIfDeadlineUnreachable(request, max_new_tokens);
  if (!in_time.ok()) return in_time;
  if (request.request().beams.has_value()) return AddBeams(request, max_new_tokens);
  for (size_t i = 0; i < request.ids().size(); ++i) {
    const int index = static_cast<int>(i);
    SequenceSpec spec = request.SpecOf(index, max_new_tokens);
    if (const std::optional<FinishReason> reason = AlreadyFinished(spec)) {
      FinishedSequence finished;
      finished.sequence = spec.id;
      finished.reason = *reason;
      request.OnSequenceFinished(index, finished);
      continue;
    }
    Place& place = places_.at(spec.id);
    const absl::Status status = scheduler_->Add(std::move(spec));
    if (!status.ok()) return WithRetryAfter(status, request.request().tenant);
    place.scheduled = true;
  }
  return absl::OkStatus();
}

int32_t RequestTable::MaxNewTokens(const EngineRequest& request) const {
  if (request.score || request.pooled != PooledRows::kNone) return 0;
  if (request.max_new_tokens.has_value()) return *request.max_new_tokens;
  const KvCache& cache = scheduler_->kv_cache();
  const int64_t capacity =
      std::min<int64_t>(scheduler_->options().max_positions,
                        static_cast<int64_t>(cache.num_total_blocks()) * cache.block_size());
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  int64_t left = capacity - prompt;
  const int64_t of_text = prompt - request.text_begin();
  if (request.default_length.has_value() && *request.default_length > of_text) {
    left = std::min(left, *request.default_length - of_text);
  }
  if (request.source_positions > 0) left = std::min(left, request.max_written - of_text);
  return static_cast<int32_t>(std::max<int64_t>(left, 1));  // too long a prompt is Add's to refuse
}

void RequestTable::UseScheduler(Scheduler* scheduler, const StepTimeModel* step_times) {
  scheduler_ = scheduler;
  step_times_ = step_times;
  for (auto& [id, waiting] : std::exchange(waiting_, {})) {
    Activate(id, std::move(waiting.request), std::move(waiting.sink));
  }
}

// ---- Going on ----

void RequestTable::OnSent(const Step& step, std::vector<RowRequest>& rows) {
  for (const SequenceId sequence : step.preempted) {
    ActiveRequest* const request = OwnerOf(sequence);
    if (request != nullptr)
      request->record().AddEvent({.kind = RequestEvent::Kind::kPreempted, .time = now_});
  }
  for (const Segment& segment : step.segments) {
    const Place& place = places_.find(segment.sequence)->second;
    RequestTimes& times = place.request->record().times;
    if (!times.started.has_value()) times.started = now_;
    if (segment.rows.empty()) continue;
    absl::Span<const TokenId> tokens;
    if (place.request->reads_tokens()) tokens = scheduler_->TokensOf(segment.sequence);
    for (const Row& row : segment.rows) {
      rows.push_back(place.request->RowFor(place.index, segment, row, tokens));
    }
  }
}

void RequestTable::AddWork(SequenceId sequence, absl::Duration work) {
  ActiveRequest* const request = OwnerOf(sequence);
  if (request == nullptr) return;
  scheduler_->BillTime(request->request().tenant, absl::ToDoubleSeconds(work));
  const absl::Duration all = request->record().work += work;
  if (all > max_work_) overworked_.emplace_back(sequence, TooMuchWork(all, max_work_));
}

void RequestTable::SetBackpressured(RequestId id, bool backpressured) {
  const ActiveRequest* request = Find(id);
  if (request == nullptr) return;
  if (!backpressured) {
    timeouts_.ForgetUnread(id);
  } else {
    timeouts_.SetUnread(id, now_ + unread_timeout_);
  }
  for (const SequenceId sequence : ScheduledOf(*request)) {
    if (!backpressured) {
      scheduler_->Resume(sequence);
    } else {
      scheduler_->Pause(sequence);
    }
  }
}

void RequestTable::OnCommitted(StepOutcome outcome, std::vector<RowResult> rows) {
  AdvanceBeams(outcome, rows);
  committed_.push_back({std::move(outcome), std::move(rows)});
}

std::vector<RequestId> RequestTable::TellOfSteps() {
  std::vector<RequestId> moved;
  for (CommittedStep& step : std::exchange(committed_, {})) {
    FailBrokenRows(step);  // not before what came earlier is told
    Apply(step, moved);
  }
  for (const auto& [sequence, status] : std::exchange(overworked_, {})) {
    FailOwnerOf(sequence, status);
  }
  return moved;
}

// A row that nobody wants any more may fail as it likes: its sequence has ended.
void RequestTable::FailBrokenRows(const CommittedStep& step) {
  for (const AcceptedRow& accepted : step.outcome.rows) {
    const RowResult& row = step.rows[accepted.row];
    if (row.error.empty() || IsDeadEnd(accepted, row)) continue;
    FailOwnerOf(accepted.sequence, IfExhaustedTooLarge(absl::Status(row.error_code, row.error)));
  }
}

void RequestTable::FailOwnerOf(SequenceId sequence, const absl::Status& status) {
  const ActiveRequest* const owner = OwnerOf(sequence);
  if (owner != nullptr) Fail(owner->id(), status);
}

void RequestTable::Apply(CommittedStep& step, std::vector<RequestId>& moved) {
  const StepOutcome& outcome = step.outcome;
  moved.reserve(moved.size() + outcome.rows.size());
  for (const AcceptedRow& accepted : outcome.rows) {
    const auto found = places_.find(accepted.sequence);
    if (found == places_.end() || !found->second.scheduled) continue;
    if (accepted.kind == RowKind::kSample) ++num_generated_tokens_;
    RowResult& row = step.rows[accepted.row];
    ActiveRequest& request = *found->second.request;
    if (moved.empty() || moved.back() != request.id()) moved.push_back(request.id());
    RequestTimes& times = request.record().times;
    if (!times.first_token.has_value()) times.first_token = now_;
    if (accepted.kind == RowKind::kPool) {
      if (!row.embedding.empty()) request.OnEmbedding(std::move(row.embedding));
      continue;
    }
    TokenEvent token = {accepted.token, row.logprob, std::move(row.top)};
    if (accepted.kind == RowKind::kScore && !request.request().score) {
      request.OnPromptToken(std::move(token));
      if (scored_.empty() || scored_.back() != request.id()) scored_.push_back(request.id());
    } else if (found->second.kind == Kind::kReturned) {
      request.FlushPrompt();
      request.OnToken(found->second.index, std::move(token));
    }
  }
  // Their sequences may have ended meanwhile.
  moved.insert(moved.end(), searching_.begin(), searching_.end());
  TellOfPromptsAndBeams();
  for (const FinishedSequence& finished : outcome.finished) {
    const auto found = places_.find(finished.sequence);
    if (found == places_.end() || !std::exchange(found->second.scheduled, false)) continue;
    ActiveRequest& request = *found->second.request;
    request.OnSequenceFinished(found->second.index, finished);
    RemoveIfOver(request);
  }
}

void RequestTable::OnText(TextStreams::Answer answer) {
  const auto found = places_.find(answer.sequence);
  if (found == places_.end()) return;  // its request ended meanwhile
  if (found->second.kind == Kind::kQuestion) return OnAnswer(found->second, answer);
  Place& place = found->second;
  ActiveRequest& request = *place.request;
  if (answer.piece.ok() && answer.piece->stop_string_index.has_value()) {
    EndSequence(place, answer.sequence, FinishReason::kStop);
  }
  request.OnPiece(place.index, std::move(answer.piece));
  RemoveIfOver(request);
}

// ---- What they have used ----

RequestLedger RequestTable::LedgerOf(const ActiveRequest& request) const {
  RequestLedger ledger = request.Ledger();
  const bool searches = request.beams() != nullptr && !request.over();
  const std::vector<SequenceId>& ids = searches ? request.beams()->sequences() : request.ids();
  if (searches) ledger.sequences.resize(ids.size());
  for (size_t i = 0; i < ledger.sequences.size(); ++i) {
    SequenceLedger& sequence = ledger.sequences[i];
    if (!places_.at(ids[i]).scheduled) continue;
    const absl::StatusOr<SequenceReport> report = scheduler_->Report(ids[i]);
    if (!report.ok()) continue;
    sequence = {PhaseOf(report->phase), report->usage, report->blocks};
    // One that runs makes it a running request; else one that is paused, a paused one.
    if (sequence.phase == RequestPhase::kRunning ||
        (sequence.phase == RequestPhase::kPaused && ledger.phase == RequestPhase::kWaiting)) {
      ledger.phase = sequence.phase;
    }
  }
  return ledger;
}

std::vector<RequestLedger> RequestTable::Ledgers(const LedgerQuery& query) const {
  std::vector<RequestLedger> ledgers;
  const auto wanted = [&query](const EngineRequest& request) {
    if (query.tenant.has_value() && request.tenant != *query.tenant) return false;
    return query.all || (!query.name.empty() && request.name == query.name);
  };
  for (const auto& [id, request] : requests_) {
    if (wanted(request->request())) ledgers.push_back(LedgerOf(*request));
  }
  for (const auto& [id, waiting] : waiting_) {
    if (wanted(waiting.request)) ledgers.push_back(sluice::LedgerOf(waiting.request));
  }
  return ledgers;
}

}  // namespace sluice
