// What becomes of requests that are searched for by beams: RequestTable's part in it.
#include <algorithm>
#include <utility>

#include "kernels/check.h"
#include "orchestrator/engine/request_table.h"

namespace sluice {

absl::Status RequestTable::AddBeams(ActiveRequest& request, int32_t max_new_tokens) {
  SequenceSpec spec = request.SpecOf(0, max_new_tokens);
  const SequenceId first = spec.id = next_sequence_++;
  const absl::Status status = scheduler_->Add(std::move(spec));
  if (!status.ok()) return WithRetryAfter(status, request.request().tenant);
  request.StartBeams(first, max_new_tokens);
  ++num_searches_;
  places_[first] = {.request = &request, .scheduled = true, .kind = Kind::kBeam};
  return absl::OkStatus();
}

bool RequestTable::IsDeadEnd(const AcceptedRow& accepted, const RowResult& row) const {
  const auto found = places_.find(accepted.sequence);
  return found != places_.end() && found->second.kind == Kind::kBeam &&
         accepted.kind == RowKind::kSample &&
         row.error_code == absl::StatusCode::kFailedPrecondition;
}

void RequestTable::AdvanceBeams(const StepOutcome& outcome, const std::vector<RowResult>& rows) {
  if (num_searches_ == 0) return;
  for (const AcceptedRow& accepted : outcome.rows) {
    const auto found = places_.find(accepted.sequence);
    if (found == places_.end() || found->second.kind != Kind::kBeam ||
        accepted.kind != RowKind::kSample) {
      continue;
    }
    const RowResult& row = rows[accepted.row];
    if (!row.error.empty() && !IsDeadEnd(accepted, row)) continue;  // the request will fail
    ActiveRequest& request = *found->second.request;
    searching_.push_back(request.id());
    RequestTimes& times = request.record().times;
    if (!times.first_token.has_value()) times.first_token = now_;
    request.beams()->OnRow(accepted.sequence, row);
    if (request.beams()->ranked()) MoveBeams(request);
  }
}

void RequestTable::MoveBeams(ActiveRequest& request) {
  if (AskAboutTexts(request)) return;
  CarryOut(request, request.beams()->Advance([this] { return next_sequence_++; }));
}

// Whether a text comes to a stop string is the tokenizer's to say.
bool RequestTable::AskAboutTexts(ActiveRequest& request) {
  const std::vector<BeamRun::Question> questions = request.beams()->Questions();
  for (const BeamRun::Question& question : questions) {
    const SequenceId id = next_sequence_++;
    places_[id] = {.request = &request, .index = question.expansion, .kind = Kind::kQuestion};
    request.beams()->AddOpenQuestion(id);
    text_->Open(id, request.TextOptionsFor(question.tokens));
    text_->Append(id, {question.token});
  }
  return !questions.empty();
}

void RequestTable::OnAnswer(const Place& question, const TextStreams::Answer& answer) {
  ActiveRequest& request = *question.request;
  BeamRun& run = *request.beams();
  if (!answer.piece.ok()) return Fail(request.id(), answer.piece.status());
  run.Answer(question.index, answer.piece->stop_string_index.has_value());
  run.RemoveOpenQuestion(answer.sequence);
  text_->Drop(answer.sequence);
  places_.erase(answer.sequence);
  if (!run.open_questions().empty()) return;
  MoveBeams(request);
  request.OnBeamsMoved();
  RemoveIfOver(request);
}

// What is refused here would be a fault of the search.
void RequestTable::CarryOut(ActiveRequest& request, const BeamMoves& moves) {
  for (const ForkSpec& fork : moves.forks) {
    SLUICE_CHECK(scheduler_->Fork(fork).ok());
    places_[fork.to] = {.request = &request, .scheduled = true, .kind = Kind::kBeam};
    if (timeouts_.IsUnread(request.id())) scheduler_->Pause(fork.to);
  }
  for (const auto& [sequence, token] : moves.appends) {
    SLUICE_CHECK(scheduler_->Append(sequence, token).ok());
  }
  for (const SequenceId sequence : moves.ended) {
    const auto place = places_.find(sequence);
    EndSequence(place->second, sequence, FinishReason::kStop);
    places_.erase(place);
  }
}

std::vector<SequenceId> RequestTable::ScheduledOf(const ActiveRequest& request) const {
  std::vector<SequenceId> ids =
      request.beams() == nullptr ? request.ids() : request.beams()->sequences();
  std::erase_if(ids, [this](SequenceId id) { return !places_.at(id).scheduled; });
  return ids;
}

void RequestTable::ForgetPlaces(const ActiveRequest& request) {
  for (const SequenceId id : request.ids()) places_.erase(id);
  if (request.beams() == nullptr) return;
  for (const SequenceId id : request.beams()->sequences()) places_.erase(id);
  for (const SequenceId id : request.beams()->open_questions()) {
    text_->Drop(id);
    places_.erase(id);
  }
}

void RequestTable::TellOfPromptsAndBeams() {
  std::vector<RequestId> changed = std::exchange(searching_, {});
  changed.insert(changed.end(), scored_.begin(), scored_.end());
  scored_.clear();
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  for (const RequestId id : changed) {
    ActiveRequest* request = Find(id);
    if (request == nullptr) continue;
    request->FlushPrompt();
    if (request->beams() == nullptr) continue;
    request->OnBeamsMoved();
    RemoveIfOver(*request);
  }
}

}  // namespace sluice
