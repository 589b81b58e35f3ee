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
  ForgetUnread(id);
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
  if (request.deadline.has_value()) deadlines_.erase({*request.deadline, id});
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
  while (!deadlines_.empty() && deadlines_.begin()->first <= due) {
    Fail(deadlines_.begin()->second, status);
  }
}

void RequestTable::ForgetUnread(RequestId id) {
  const auto found = unread_.find(id);
  if (found == unread_.end()) return;
  unread_timeouts_.erase({found->second, id});
  unread_.erase(found);
}

void RequestTable::ExpireUnread() {
  while (!unread_timeouts_.empty() && unread_timeouts_.begin()->first <= now_) {
    const RequestId id = unread_timeouts_.begin()->second;
    Fail(id, absl::ResourceExhaustedError(absl::StrCat("the client has not read for ",
                                                       absl::FormatDuration(unread_timeout_),
                                                       " while as much waits for it as may")));
  }
}

SteadyTime RequestTable::NextUnreadTimeout() const {
  return unread_timeouts_.empty() ? SteadyTime::InfiniteFuture() : unread_timeouts_.begin()->first;
}

SteadyTime RequestTable::NextDeadline() const {
  return deadlines_.empty() ? SteadyTime::InfiniteFuture() : deadlines_.begin()->first;
}

}  // namespace sluice
