// Who is being served: the requests, which sequence of the scheduler is whose, and when each must
// have ended. Refuses those that could not be served in time, admits the others to the scheduler,
// tells them what came of their sequences, and takes them out when they are over.
//
// Lives on one event loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "orchestrator/engine/active_request.h"
#include "orchestrator/engine/ledger.h"
#include "orchestrator/engine/request.h"
#include "orchestrator/engine/request_timeouts.h"
#include "orchestrator/engine/service_rate.h"
#include "orchestrator/pipeline/rows.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/step_time/step_time_model.h"
#include "orchestrator/text/text_streams.h"
#include "services/common/steady_time.h"

namespace sluice {

class RequestTable {
 public:
  // At most `max_waiting` requests wait for a scheduler. A client that has not read for
  // `unread_timeout` while as much waits for it as may loses its request. `text` is borrowed; null
  // for a model without a tokenizer.
  // Processor time outside of steps (masks and the like) beyond `max_work` ends a request.
  RequestTable(int32_t max_waiting, absl::Duration unread_timeout, TextStreams* text,
               absl::Duration max_work = absl::InfiniteDuration());

  // What happens from now on happens at this time.
  void SetTime(SteadyTime now);

  // Takes a request up, or refuses it by telling its sink. While there is no scheduler it waits.
  void Add(RequestId id, EngineRequest request, std::shared_ptr<RequestSink> sink);
  // Its client has gone: nothing is told any more.
  void Cancel(RequestId id);
  // Ends a request with a status; does nothing where there is none.
  void Fail(RequestId id, const absl::Status& status);
  void FailAll(const absl::Status& status);

  // Whether a request's client reads what is sent to it. While it does not, its sequences are
  // paused.
  void SetBackpressured(RequestId id, bool backpressured);
  // The replica was lost under all requests, or is back.
  void OnReplica(RequestEvent::Kind kind);
  // A step is on its way: appends what is asked of the sampler for its rows, in the order of its
  // segments, whose sequences are alive. The rows borrow from requests and from the scheduler,
  // until a request ends or the scheduler changes.
  void OnSent(const Step& step, std::vector<RowRequest>& rows);

  // Processor time was spent on a sequence outside of steps: its tenant is billed. A request that
  // has had more of it than one may ends with RESOURCE_EXHAUSTED at the next TellOfSteps().
  void AddWork(SequenceId sequence, absl::Duration work);

  // Requests go to `scheduler` from now on, whose steps take what `step_times` says; those that
  // waited, in order of arrival. Borrows both.
  void UseScheduler(Scheduler* scheduler, const StepTimeModel* step_times);

  // The ledgers of those being served that the query asks for, in order of arrival.
  std::vector<RequestLedger> Ledgers(const LedgerQuery& query) const;
  // Of those that have ended since the last call.
  std::vector<RequestLedger> TakeEnded();
  // How long a tenant's new sequence would wait for its turn; nothing while that is not known.
  std::optional<absl::Duration> EstimateWait(const std::string& tenant) const;

  // Fails every request whose client has not read for too long.
  void ExpireUnread();
  // Fails every request whose deadline is `due` or earlier.
  void ExpireDeadlines(SteadyTime due, const absl::Status& status);
  const RequestTimeouts& timeouts() const { return timeouts_; }

  // A step was committed, with these results. Searches go on at once, before the next step is
  // planned: they say which tokens their beams get. The rest waits for TellOfSteps().
  void OnCommitted(StepOutcome outcome, std::vector<RowResult> rows);
  // Tells requests what committed steps have brought, and ends those whose rows have failed.
  // Returns the requests that have a new token, perhaps more than once.
  std::vector<RequestId> TellOfSteps();
  // Tells a request what its text end said of one of its sequences.
  void OnText(TextStreams::Answer answer);

  // By what another model that drafts for the sequence chooses: all of a row but its sequence,
  // position and tokens. Nothing where the sequence is over.
  std::optional<RowRequest> DraftRowFor(SequenceId sequence) const;
  // The request that a sequence of the scheduler belongs to; null where it has ended.
  ActiveRequest* OwnerOf(SequenceId sequence);
  ActiveRequest* Find(RequestId id);

  struct Counts {
    size_t served = 0;              // requests with sequences
    int32_t waiting = 0;            // for a scheduler
    uint64_t generated_tokens = 0;  // ever
  };
  Counts counts() const {
    return {requests_.size(), static_cast<int32_t>(waiting_.size()), num_generated_tokens_};
  }

 private:
  // What an id stands for: a sequence that is returned, a live beam, or a text that a search asks
  // about.
  enum class Kind : uint8_t { kReturned, kBeam, kQuestion };
  struct Place {
    ActiveRequest* request = nullptr;
    int index = 0;           // of the sequence that is returned, or of the expansion in question
    bool scheduled = false;  // alive in the scheduler
    Kind kind = Kind::kReturned;
  };
  // What a step brought, committed but not yet told to its requests.
  struct CommittedStep {
    StepOutcome outcome;
    std::vector<RowResult> rows;
  };
  // A request that came before the replica was ever wired.
  struct Waiting {
    EngineRequest request;
    std::shared_ptr<RequestSink> sink;
  };

  void Wait(RequestId id, EngineRequest request, std::shared_ptr<RequestSink> sink);
  void Activate(RequestId id, EngineRequest request, std::shared_ptr<RequestSink> sink);
  absl::Status AddSequences(ActiveRequest& request);
  absl::Status AddBeams(ActiveRequest& request, int32_t max_new_tokens);
  void AdvanceBeams(const StepOutcome& outcome, const std::vector<RowResult>& rows);
  // A row of a beam that says no more than that nothing can follow it.
  bool IsDeadEnd(const AcceptedRow& accepted, const RowResult& row) const;
  void FailBrokenRows(const CommittedStep& step);
  void FailOwnerOf(SequenceId sequence, const absl::Status& status);
  // Appends the requests that have a new token to `moved`.
  void Apply(CommittedStep& step, std::vector<RequestId>& moved);
  // Takes the search's next step, unless that needs answers to questions, which are asked.
  void MoveBeams(ActiveRequest& request);
  bool AskAboutTexts(ActiveRequest& request);
  void OnAnswer(const Place& question, const TextStreams::Answer& answer);
  void CarryOut(ActiveRequest& request, const BeamMoves& moves);
  // The ids of a request that are alive in the scheduler.
  std::vector<SequenceId> ScheduledOf(const ActiveRequest& request) const;
  void ForgetPlaces(const ActiveRequest& request);
  // Hands on what has been scored of prompts, and what searches have settled.
  void TellOfPromptsAndBeams();
  absl::Status RejectIfDeadlineUnreachable(const ActiveRequest& request,
                                           int32_t max_new_tokens) const;
  // With the time after which to try again, where it is for lack of room.
  absl::Status WithRetryAfter(const absl::Status& status, const std::string& tenant) const;
  RequestLedger LedgerOf(const ActiveRequest& request) const;
  int32_t MaxNewTokens(const EngineRequest& request) const;
  // Takes a sequence out of the scheduler, if it is there: what it has used.
  void EndSequence(Place& place, SequenceId sequence, FinishReason reason);
  // Takes a request out, its sequences too.
  void Remove(RequestId id, FinishReason reason);
  void RemoveIfOver(const ActiveRequest& request);
  // Records the end of a request that never had sequences.
  void RecordUnserved(const EngineRequest& request, const absl::Status& status);
  void ForgetDeadline(RequestId id, const EngineRequest& request);

  const int32_t max_waiting_;
  const absl::Duration unread_timeout_;
  const absl::Duration max_work_;
  TextStreams* const text_;
  Scheduler* scheduler_ = nullptr;
  const StepTimeModel* step_times_ = nullptr;

  SequenceId next_sequence_ = 1;
  std::map<RequestId, std::unique_ptr<ActiveRequest>> requests_;
  absl::flat_hash_map<SequenceId, Place> places_;  // of all sequences of requests_
  std::map<RequestId, Waiting> waiting_;           // in order of arrival
  RequestTimeouts timeouts_;
  SteadyTime now_;
  ServiceRate rate_;
  std::vector<CommittedStep> committed_;  // in order
  std::vector<std::pair<SequenceId, absl::Status>> overworked_;
  std::vector<RequestLedger> ended_;
  // With rows that have come and were not told of yet: of searches, and of prompts that are scored.
  std::vector<RequestId> searching_, scored_;
  int num_searches_ = 0;  // requests that have begun to search
  uint64_t num_generated_tokens_ = 0;
};

}  // namespace sluice
