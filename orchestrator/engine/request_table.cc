#include "orchestrator/engine/request_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/log.h"

namespace sluice {

RequestTable::RequestTable(int32_t max_waiting, TextStreams* text)
    : max_waiting_(max_waiting), text_(text) {}

ActiveRequest* RequestTable::Find(RequestId id) {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second.get();
}

ActiveRequest* RequestTable::OwnerOf(SequenceId sequence) {
  const auto found = places_.find(sequence);
  return found == places_.end() || !found->second.scheduled ? nullptr : found->second.request;
}

RowRequest RequestTable::RowFor(const Segment& segment, const Row& row) const {
  const Place& place = places_.at(segment.sequence);
  return place.request->RowFor(place.index, segment, row);
}

// ---- Coming ----

void RequestTable::Add(RequestId id, EngineRequest request, std::shared_ptr<RequestSink> sink) {
  if (request.deadline.has_value()) deadlines_.emplace(*request.deadline, id);
  if (scheduler_ == nullptr) {
    Wait(id, std::move(request), std::move(sink));
  } else {
    Activate(id, std::move(request), std::move(sink));
  }
}

void RequestTable::Wait(RequestId id, EngineRequest request, std::shared_ptr<RequestSink> sink) {
  if (num_waiting() >= max_waiting_) {
    ForgetDeadline(id, request);
    return sink->OnFailed(absl::ResourceExhaustedError(absl::StrCat(
        "the model is not ready and ", waiting_.size(), " requests wait for it already")));
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

absl::Status RequestTable::AddSequences(ActiveRequest& request) {
  const int32_t max_new_tokens = MaxNewTokens(request.request());
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
    absl::Status status = scheduler_->Add(std::move(spec));
    if (!status.ok()) return status;
    place.scheduled = true;
  }
  return absl::OkStatus();
}

int32_t RequestTable::MaxNewTokens(const EngineRequest& request) const {
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

void RequestTable::UseScheduler(Scheduler* scheduler) {
  scheduler_ = scheduler;
  for (auto& [id, waiting] : std::exchange(waiting_, {})) {
    Activate(id, std::move(waiting.request), std::move(waiting.sink));
  }
}

// ---- Going on ----

std::vector<RequestId> RequestTable::Apply(const StepOutcome& outcome,
                                           std::vector<RowResult>& rows) {
  std::vector<RequestId> moved;
  for (const AcceptedRow& accepted : outcome.rows) {
    const auto found = places_.find(accepted.sequence);
    if (found == places_.end() || !found->second.scheduled) continue;
    if (accepted.kind == RowKind::kSample) ++num_generated_tokens_;
    RowResult& row = rows[accepted.row];
    ActiveRequest& request = *found->second.request;
    moved.push_back(request.id());
    request.OnToken(found->second.index, {accepted.token, row.logprob, std::move(row.top)});
  }
  for (const FinishedSequence& finished : outcome.finished) {
    const auto found = places_.find(finished.sequence);
    if (found == places_.end() || !std::exchange(found->second.scheduled, false)) continue;
    ActiveRequest& request = *found->second.request;
    request.OnSequenceFinished(found->second.index, finished);
    RemoveIfOver(request);
  }
  return moved;
}

void RequestTable::OnText(TextStreams::Answer answer) {
  const auto found = places_.find(answer.sequence);
  if (found == places_.end()) return;  // its request ended meanwhile
  Place& place = found->second;
  ActiveRequest& request = *place.request;
  if (answer.piece.ok() && answer.piece->stop_string_index.has_value()) {
    EndSequence(place, answer.sequence, FinishReason::kStop);
  }
  request.OnPiece(place.index, std::move(answer.piece));
  RemoveIfOver(request);
}

// ---- Ending ----

void RequestTable::EndSequence(Place& place, SequenceId sequence, FinishReason reason) {
  if (!std::exchange(place.scheduled, false)) return;
  const auto finished = scheduler_->Finish(sequence, reason);
  if (finished.ok()) place.request->CountUsage(finished->usage);
}

void RequestTable::Remove(RequestId id, FinishReason reason) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  const ActiveRequest& request = *found->second;
  for (SequenceId sequence : request.ids()) {
    const auto place = places_.find(sequence);
    EndSequence(place->second, sequence, reason);
    places_.erase(place);
  }
  ForgetDeadline(id, request.request());
  requests_.erase(found);
}

void RequestTable::RemoveIfOver(const ActiveRequest& request) {
  if (request.over()) Remove(request.id(), FinishReason::kStop);
}

void RequestTable::ForgetDeadline(RequestId id, const EngineRequest& request) {
  if (request.deadline.has_value()) deadlines_.erase({*request.deadline, id});
}

void RequestTable::Cancel(RequestId id) {
  if (const auto waiting = waiting_.find(id); waiting != waiting_.end()) {
    ForgetDeadline(id, waiting->second.request);
    waiting_.erase(waiting);
  }
  Remove(id, FinishReason::kCancelled);
}

void RequestTable::Fail(RequestId id, const absl::Status& status) {
  if (const auto waiting = waiting_.find(id); waiting != waiting_.end()) {
    waiting->second.sink->OnFailed(status);
    return Cancel(id);
  }
  ActiveRequest* request = Find(id);
  if (request == nullptr) return;
  const LogLevel level =
      status.code() == absl::StatusCode::kInternal ? LogLevel::kWarning : LogLevel::kInfo;
  Log(level, "orchestrator", "request-failed",
      {{"request_id", request->request().name}, {"status", status.ToString()}});
  request->Fail(status);
  Remove(id, FinishReason::kFailed);
}

void RequestTable::FailAll(const absl::Status& status) {
  while (!waiting_.empty()) Fail(waiting_.begin()->first, status);
  while (!requests_.empty()) Fail(requests_.begin()->first, status);
}

void RequestTable::ExpireDeadlines(SteadyTime due, const absl::Status& status) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= due) {
    Fail(deadlines_.begin()->second, status);
  }
}

SteadyTime RequestTable::NextDeadline() const {
  return deadlines_.empty() ? SteadyTime::InfiniteFuture() : deadlines_.begin()->first;
}

}  // namespace sluice
