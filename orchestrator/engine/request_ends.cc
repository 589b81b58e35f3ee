// How requests end: their sequences leave the scheduler, their ledgers are kept, and what would have
// ended them at some time is forgotten.
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "orchestrator/engine/request_table.h"

namespace sluice {

void RequestTable::EndSequence(Place& place, SequenceId sequence, FinishReason reason) {
  if (!std::exchange(place.scheduled, false)) return;
  const auto finished = scheduler_->Finish(sequence, reason);
  if (!finished.ok()) return;
  if (place.kind == Kind::kBeam) {
    place.request->beams()->AddUsage(finished->usage);
  } else {
    place.request->SetUsage(place.index, finished->usage);
  }
}

void RequestTable::Remove(RequestId id, FinishReason reason) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  const ActiveRequest& request = *found->second;
  for (const SequenceId sequence : ScheduledOf(request)) {
    EndSequence(places_.at(sequence), sequence, reason);
  }
  ForgetPlaces(request);
  if (request.beams() != nullptr) --num_searches_;
  ForgetDeadline(id, request.request());
  timeouts_.ForgetUnread(id);
  RequestLedger ledger = request.Ledger();
  ledger.phase = RequestPhase::kEnded;
  if (!request.over()) ledger.outcome = "cancelled";
  ended_.push_back(std::move(ledger));
  requests_.erase(found);
}

std::vector<RequestLedger> RequestTable::TakeEnded() {
  for (RequestLedger& ledger : ended_) ledger.times.ended = now_;
  return std::exchange(ended_, {});
}

void RequestTable::RemoveIfOver(const ActiveRequest& request) {
  if (request.over()) Remove(request.id(), FinishReason::kStop);
}

void RequestTable::ForgetDeadline(RequestId id, const EngineRequest& request) {
  if (request.deadline.has_value()) timeouts_.ForgetDeadline(id, *request.deadline);
}

void RequestTable::RecordUnserved(const EngineRequest& request, const absl::Status& status) {
  RequestLedger& ledger = ended_.emplace_back(sluice::LedgerOf(request));
  ledger.phase = RequestPhase::kEnded;
  ledger.outcome = absl::AsciiStrToLower(absl::StatusCodeToString(status.code()));
  ledger.detail = std::string(status.message());
}

void RequestTable::Cancel(RequestId id) {
  const auto waiting = waiting_.find(id);
  if (waiting == waiting_.end()) return Remove(id, FinishReason::kCancelled);
  RecordUnserved(waiting->second.request, absl::CancelledError());
  ForgetDeadline(id, waiting->second.request);
  waiting_.erase(waiting);
}

void RequestTable::Fail(RequestId id, const absl::Status& status) {
  if (const auto waiting = waiting_.find(id); waiting != waiting_.end()) {
    waiting->second.sink->OnFailed(status);
    RecordUnserved(waiting->second.request, status);
    ForgetDeadline(id, waiting->second.request);
    waiting_.erase(waiting);
    return;
  }
  ActiveRequest* request = Find(id);
  if (request == nullptr) return;
  request->Fail(status);
  Remove(id, FinishReason::kFailed);
}

void RequestTable::FailAll(const absl::Status& status) {
  while (!waiting_.empty()) Fail(waiting_.begin()->first, status);
  while (!requests_.empty()) Fail(requests_.begin()->first, status);
}

void RequestTable::ExpireDeadlines(SteadyTime due, const absl::Status& status) {
  while (const auto id = timeouts_.PastDeadline(due)) Fail(*id, status);
}

void RequestTable::ExpireUnread() {
  while (const auto id = timeouts_.PastUnread(now_)) {
    Fail(*id, absl::ResourceExhaustedError(absl::StrCat("the client has not read for ",
                                                        absl::FormatDuration(unread_timeout_),
                                                        " while as much waits for it as may")));
  }
}

}  // namespace sluice
