#include "orchestrator/engine/engine.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/common/log.h"

namespace sluice {

Engine::Engine(EngineOptions options, ReplicaOptions replica, Dialer* dialer, TextStreams* text)
    : options_(std::move(options)), text_(text) {
  const auto post = [this](auto method) {
    return [this, method](uint64_t epoch, auto... arguments) {
      // A message is copyable, its contents need not be.
      auto packed = std::make_shared<std::tuple<decltype(arguments)...>>(std::move(arguments)...);
      mailbox_.Post([this, method, epoch, packed] {
        std::apply([&](auto&... unpacked) { (this->*method)(epoch, std::move(unpacked)...); },
                   *packed);
      });
    };
  };
  replica_ = std::make_unique<Replica>(std::move(replica), dialer,
                                       Replica::Handler{.on_ready = post(&Engine::OnReady),
                                                        .on_executed = post(&Engine::OnExecuted),
                                                        .on_lost = post(&Engine::OnLost)});
  replica_->Connect();
  thread_ = std::thread([this] { Loop(); });
}

Engine::~Engine() {
  mailbox_.Post([this] { stopping_ = true; });
  thread_.join();
  replica_->Stop();
  mailbox_.TakeAll(absl::InfinitePast());  // drops a wiring that was not taken up; wirings end
                                           // before their replica
}

RequestId Engine::Submit(EngineRequest request, std::shared_ptr<RequestSink> sink) {
  const RequestId id = next_request_++;
  mailbox_.Post([this, id, request = std::move(request), sink = std::move(sink)]() mutable {
    Admit(id, std::move(request), std::move(sink));
  });
  return id;
}

void Engine::Cancel(RequestId id) {
  mailbox_.Post([this, id] { EndRequest(id, FinishReason::kCancelled); });
}

EngineStatus Engine::status() const {
  absl::MutexLock lock(&status_mutex_);
  return status_;
}

void Engine::Loop() {
  while (!stopping_) {
    for (const Mailbox::Message& message : mailbox_.TakeAll(NextWake())) message();
    // The stages first: they compute the next step while clients are told of the last.
    SendSteps();
    TellRequests();
    ExpireDeadlines();
    CheckStepTimeout();
    SendSteps();  // what was told or has expired may have made room
    Publish();
  }
  for (auto& [id, request] : requests_) {
    request->Fail(absl::UnavailableError("the orchestrator is shutting down"));
  }
  for (auto& [id, waiting] : unadmitted_) {
    waiting.sink->OnFailed(absl::UnavailableError("the orchestrator is shutting down"));
  }
  requests_.clear();
  unadmitted_.clear();
  wiring_.reset();
}

absl::Time Engine::NextWake() const {
  absl::Time wake = absl::InfiniteFuture();
  if (!in_flight_.empty()) wake = in_flight_.front().sent + options_.step_timeout;
  for (const auto& [id, request] : requests_) {
    if (request->request().deadline.has_value())
      wake = std::min(wake, *request->request().deadline);
  }
  for (const auto& [id, waiting] : unadmitted_) {
    if (waiting.request.deadline.has_value()) wake = std::min(wake, *waiting.request.deadline);
  }
  return wake;
}

void Engine::Publish() {
  EngineStatus status;
  status.serving = wiring_ != nullptr;
  status.epoch = epoch_;
  if (scheduler_.has_value()) status.scheduler = scheduler_->statistics();
  status.num_unadmitted_requests = static_cast<int32_t>(unadmitted_.size());
  status.num_steps = num_steps_;
  status.num_generated_tokens = num_generated_tokens_;
  status.num_recoveries = num_recoveries_;
  bool changed = false;
  {
    absl::MutexLock lock(&status_mutex_);
    changed = status.serving != status_.serving;
    status_ = status;
  }
  if (changed && options_.on_serving_changed != nullptr)
    options_.on_serving_changed(status.serving);
}

// ---- Requests ----

ActiveRequest* Engine::Find(RequestId id) {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second.get();
}

void Engine::Admit(RequestId id, EngineRequest request, std::shared_ptr<RequestSink> sink) {
  if (!scheduler_.has_value()) {
    if (static_cast<int32_t>(unadmitted_.size()) >= options_.scheduler.max_queued_sequences) {
      return sink->OnFailed(absl::ResourceExhaustedError(absl::StrCat(
          "the model is not ready and ", unadmitted_.size(), " requests wait for it already")));
    }
    unadmitted_.emplace(id, Unadmitted{std::move(request), std::move(sink)});
    return;
  }
  std::vector<SequenceId> ids(request.num_sequences);
  for (SequenceId& sequence : ids) sequence = next_sequence_++;
  TextStreams* text = request.wants_text ? text_ : nullptr;
  auto active = std::make_unique<ActiveRequest>(
      std::move(request), ids, std::move(sink), text,
      [this, id](int index, absl::StatusOr<TextPiece> piece) {
        mailbox_.Post([this, id, index, piece = std::move(piece)]() mutable {
          OnPiece(id, index, std::move(piece));
        });
      });
  ActiveRequest& added = *requests_.emplace(id, std::move(active)).first->second;
  const absl::Status status = AddSequences(id, added);
  if (!status.ok()) FailRequest(id, status);
  RemoveIfOver(id);
}

absl::Status Engine::AddSequences(RequestId id, ActiveRequest& request) {
  const int32_t max_new_tokens = MaxNewTokens(request.request());
  for (size_t i = 0; i < request.ids().size(); ++i) {
    const int index = static_cast<int>(i);
    SequenceSpec spec = request.SpecOf(index, id, max_new_tokens);
    if (const std::optional<FinishReason> reason = AlreadyFinished(spec)) {
      FinishedSequence finished;
      finished.sequence = spec.id;
      finished.reason = *reason;
      request.OnSequenceFinished(index, finished);
      continue;
    }
    absl::Status status = scheduler_->Add(std::move(spec));
    if (!status.ok()) return status;
    owners_[request.ids()[i]] = {id, index};
  }
  return absl::OkStatus();
}

int32_t Engine::MaxNewTokens(const EngineRequest& request) const {
  if (request.score) return 0;
  if (request.max_new_tokens.has_value()) return *request.max_new_tokens;
  const KvCache& cache = scheduler_->kv_cache();
  const int64_t capacity =
      std::min<int64_t>(scheduler_->options().max_positions,
                        static_cast<int64_t>(cache.num_total_blocks()) * cache.block_size());
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  int64_t left = capacity - prompt;
  if (request.default_length.has_value() && *request.default_length > prompt) {
    left = std::min(left, *request.default_length - prompt);
  }
  return static_cast<int32_t>(std::max<int64_t>(left, 1));  // too long a prompt is Add's to refuse
}

void Engine::EndRequest(RequestId id, FinishReason reason) {
  unadmitted_.erase(id);
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  for (SequenceId sequence : found->second->ids()) {
    if (owners_.erase(sequence) > 0) (void)scheduler_->Finish(sequence, reason);
  }
  requests_.erase(found);
}

void Engine::FailRequest(RequestId id, const absl::Status& status) {
  ActiveRequest* request = Find(id);
  if (request == nullptr) return;
  const LogLevel level =
      status.code() == absl::StatusCode::kInternal ? LogLevel::kWarning : LogLevel::kInfo;
  Log(level, "orchestrator", "request-failed",
      {{"request_id", request->request().name}, {"status", status.ToString()}});
  request->Fail(status);
  EndRequest(id, FinishReason::kFailed);
}

void Engine::RemoveIfOver(RequestId id) {
  const ActiveRequest* request = Find(id);
  if (request != nullptr && request->over()) EndRequest(id, FinishReason::kStop);
}

void Engine::ExpireDeadlines() {
  const absl::Time now = absl::Now();
  const absl::Status status = absl::DeadlineExceededError("the request's deadline has passed");
  std::vector<RequestId> expired;
  for (const auto& [id, request] : requests_) {
    const std::optional<absl::Time>& deadline = request->request().deadline;
    if (deadline.has_value() && *deadline <= now) expired.push_back(id);
  }
  for (RequestId id : expired) FailRequest(id, status);
  for (auto it = unadmitted_.begin(); it != unadmitted_.end();) {
    const std::optional<absl::Time>& deadline = it->second.request.deadline;
    if (deadline.has_value() && *deadline <= now) {
      it->second.sink->OnFailed(status);
      it = unadmitted_.erase(it);
    } else {
      ++it;
    }
  }
}

void Engine::OnPiece(RequestId id, int index, absl::StatusOr<TextPiece> piece) {
  ActiveRequest* request = Find(id);
  if (request == nullptr) return;
  const bool stops = piece.ok() && piece->stop_string_index.has_value();
  const SequenceId sequence = request->ids()[index];
  if (stops && owners_.erase(sequence) > 0) {
    const auto finished = scheduler_->Finish(sequence, FinishReason::kStop);
    if (finished.ok()) request->CountUsage(finished->usage);
  }
  request->OnPiece(index, std::move(piece));
  RemoveIfOver(id);
}

// ---- The replica ----

void Engine::OnReady(uint64_t epoch, std::unique_ptr<Wiring> wiring, KvGeometry geometry) {
  Log(LogLevel::kInfo, "orchestrator", "replica-ready",
      {{"epoch", epoch}, {"kv_blocks", geometry.num_blocks}, {"block_size", geometry.block_size}});
  wiring_ = std::move(wiring);
  epoch_ = epoch;
  if (!scheduler_.has_value()) {
    SchedulerOptions scheduler = options_.scheduler;
    scheduler.max_inflight_steps = replica_->topology().num_stages();
    scheduler_.emplace(scheduler, KvCacheOptions{.num_blocks = geometry.num_blocks,
                                                 .block_size = geometry.block_size});
    for (auto& [id, waiting] : std::exchange(unadmitted_, {})) {
      Admit(id, std::move(waiting.request), std::move(waiting.sink));
    }
  }
  if (epoch == lost_epoch_) OnLost(epoch, lost_status_);
}

void Engine::OnLost(uint64_t epoch, const absl::Status& status) {
  if (epoch > epoch_) {
    lost_epoch_ = epoch;
    lost_status_ = status;
  }
  if (epoch != epoch_ || wiring_ == nullptr) return;
  TellRequests();  // what moved before the loss counts as moved
  Log(LogLevel::kWarning, "orchestrator", "replica-lost",
      {{"epoch", epoch}, {"status", status.ToString()}, {"requests", requests_.size()}});
  wiring_.reset();
  ++num_recoveries_;
  std::vector<RequestId> suspects;
  for (const StepInFlight& step : in_flight_) {
    for (SequenceId sequence : step.sequences) {
      const auto owner = owners_.find(sequence);
      if (owner != owners_.end()) suspects.push_back(owner->second.request);
    }
  }
  in_flight_.clear();
  scheduler_->Reset();
  std::sort(suspects.begin(), suspects.end());
  suspects.erase(std::unique(suspects.begin(), suspects.end()), suspects.end());
  for (RequestId id : suspects) {
    ActiveRequest* request = Find(id);
    if (request == nullptr || ++request->num_losses <= options_.max_losses) continue;
    FailRequest(id, absl::InternalError(
                        absl::StrCat("the model was lost ", request->num_losses,
                                     " times over this request, last by: ", status.ToString())));
  }
  replica_->Connect();
}

void Engine::CheckStepTimeout() {
  if (in_flight_.empty() || absl::Now() < in_flight_.front().sent + options_.step_timeout) return;
  OnLost(epoch_, absl::DeadlineExceededError(
                     absl::StrCat("step ", in_flight_.front().id, " did not complete within ",
                                  absl::FormatDuration(options_.step_timeout))));
}

void Engine::SendSteps() {
  if (wiring_ == nullptr) return;
  while (const std::optional<Step> step = scheduler_->Plan()) Send(*step);
}

void Engine::Send(const Step& step) {
  StepInFlight& sent = in_flight_.emplace_back();
  sent.id = step.id;
  sent.sent = absl::Now();
  std::vector<RowRequest> rows;
  rows.reserve(step.num_rows());
  for (const Segment& segment : step.segments) {
    sent.sequences.push_back(segment.sequence);
    const SequenceOwner& owner = owners_.at(segment.sequence);
    for (const Row& row : segment.rows) {
      rows.push_back(requests_.at(owner.request)->RowFor(owner.index, segment, row));
      sent.row_sequences.push_back(segment.sequence);
    }
  }
  wiring_->Execute(step, rows);
}

void Engine::OnExecuted(uint64_t epoch, StepId step, std::vector<RowResult> rows) {
  if (epoch != epoch_ || wiring_ == nullptr) return;
  if (in_flight_.empty() || in_flight_.front().id != step ||
      in_flight_.front().row_sequences.size() != rows.size()) {
    return OnLost(epoch,
                  absl::InternalError(absl::StrCat("the sampler answered step ", step, " with ",
                                                   rows.size(), " rows, out of turn")));
  }
  const StepInFlight executed = std::move(in_flight_.front());
  in_flight_.pop_front();
  FailBrokenRows(executed, rows);
  std::vector<TokenId> tokens;
  tokens.reserve(rows.size());
  for (const RowResult& row : rows) tokens.push_back(row.token);
  absl::StatusOr<StepOutcome> outcome = scheduler_->Commit(step, tokens);
  if (!outcome.ok()) return OnLost(epoch, outcome.status());
  ++num_steps_;
  untold_.push_back({*std::move(outcome), std::move(rows)});
}

void Engine::TellRequests() {
  for (Executed& executed : std::exchange(untold_, {})) Apply(executed.outcome, executed.rows);
}

void Engine::FailBrokenRows(const StepInFlight& step, const std::vector<RowResult>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].error.empty()) continue;
    const auto owner = owners_.find(step.row_sequences[i]);
    if (owner != owners_.end())
      FailRequest(owner->second.request, absl::InternalError(rows[i].error));
  }
}

void Engine::Apply(const StepOutcome& outcome, std::vector<RowResult>& rows) {
  for (const AcceptedRow& accepted : outcome.rows) {
    const auto owner = owners_.find(accepted.sequence);
    if (owner == owners_.end()) continue;
    RowResult& row = rows[accepted.row];
    if (accepted.kind == RowKind::kSample) ++num_generated_tokens_;
    ActiveRequest& request = *requests_.at(owner->second.request);
    request.num_losses = 0;  // it moves: losses so far were not its doing
    request.OnToken(owner->second.index, {accepted.token, row.logprob, std::move(row.top)});
  }
  for (const FinishedSequence& finished : outcome.finished) {
    const auto owner = owners_.find(finished.sequence);
    if (owner == owners_.end()) continue;
    const auto [request, index] = owner->second;
    owners_.erase(owner);
    requests_.at(request)->OnSequenceFinished(index, finished);
    RemoveIfOver(request);
  }
}

}  // namespace sluice
