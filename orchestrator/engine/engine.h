// The loop in which scheduling meets I/O: takes requests, asks the scheduler for steps, sends them
// through the replica, applies what comes back, and hands tokens to clients. When the replica is
// lost it waits for the next incarnation and replays: prompt, tokens so far and seed are a
// sequence's whole state, so that it continues with the same bits.
//
// Thread-safe. Everything happens on one thread of the engine's own; callers and callbacks only
// leave messages for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "orchestrator/engine/active_request.h"
#include "orchestrator/engine/mailbox.h"
#include "orchestrator/engine/request.h"
#include "orchestrator/pipeline/replica.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/text/text_streams.h"

namespace sluice {

struct EngineOptions {
  // max_inflight_steps is set by the engine: as many as the replica has stages.
  SchedulerOptions scheduler;
  // A step that takes longer means that the replica hangs: it is wired anew.
  absl::Duration step_timeout = absl::Seconds(60);
  // A request during whose steps the replica was lost more often than this is ended with INTERNAL:
  // it may be the cause.
  int max_losses = 3;
  // Called from the engine's thread when steps can complete again or no longer can.
  std::function<void(bool serving)> on_serving_changed;
};

struct EngineStatus {
  bool serving = false;
  uint64_t epoch = 0;
  SchedulerStatistics scheduler;
  int32_t num_unadmitted_requests = 0;  // waiting for the replica's first incarnation
  uint64_t num_steps = 0;
  uint64_t num_generated_tokens = 0;
  uint64_t num_recoveries = 0;
};

class Engine {
 public:
  // `dialer` and `text` (null for a model without a tokenizer) are borrowed.
  Engine(EngineOptions options, ReplicaOptions replica, Dialer* dialer, TextStreams* text);
  // Ends every request with UNAVAILABLE.
  ~Engine();

  // The request's events go to `sink`; a refusal is OnFailed with
  //   INVALID_ARGUMENT     prompt and new tokens do not fit the context or the KV cache
  //   RESOURCE_EXHAUSTED   too many sequences wait
  RequestId Submit(EngineRequest request, std::shared_ptr<RequestSink> sink);

  // The client has gone: its sequences end, nothing is told to the sink any more.
  void Cancel(RequestId id);

  EngineStatus status() const;
  std::vector<ReplicaProcess> processes() const { return replica_->processes(); }
  const Topology& topology() const { return replica_->topology(); }

 private:
  struct SequenceOwner {
    RequestId request = 0;
    int index = 0;
  };
  // A request that came before the replica was ever wired.
  struct Unadmitted {
    EngineRequest request;
    std::shared_ptr<RequestSink> sink;
  };
  struct StepInFlight {
    StepId id = 0;
    absl::Time sent;
    std::vector<SequenceId> sequences;      // in the step
    std::vector<SequenceId> row_sequences;  // of each row
  };

  // What a step brought, committed but not yet told to its requests.
  struct Executed {
    StepOutcome outcome;
    std::vector<RowResult> rows;
  };

  // All below run on the engine's thread.
  void Loop();
  absl::Time NextWake() const;
  void Publish();

  void Admit(RequestId id, EngineRequest request, std::shared_ptr<RequestSink> sink);
  absl::Status AddSequences(RequestId id, ActiveRequest& request);
  int32_t MaxNewTokens(const EngineRequest& request) const;
  void EndRequest(RequestId id, FinishReason reason);
  void FailRequest(RequestId id, const absl::Status& status);
  void RemoveIfOver(RequestId id);
  ActiveRequest* Find(RequestId id);

  void OnReady(uint64_t epoch, std::unique_ptr<Wiring> wiring, KvGeometry geometry);
  void OnLost(uint64_t epoch, const absl::Status& status);
  void OnExecuted(uint64_t epoch, StepId step, std::vector<RowResult> rows);
  void OnPiece(RequestId id, int index, absl::StatusOr<TextPiece> piece);

  void SendSteps();
  void Send(const Step& step);
  void FailBrokenRows(const StepInFlight& step, const std::vector<RowResult>& rows);
  void TellRequests();
  void Apply(const StepOutcome& outcome, std::vector<RowResult>& rows);
  void ExpireDeadlines();
  void CheckStepTimeout();

  const EngineOptions options_;
  TextStreams* const text_;
  Mailbox mailbox_;
  std::atomic<RequestId> next_request_ = 1;

  // Of the engine's thread.
  bool stopping_ = false;
  SequenceId next_sequence_ = 1;
  std::optional<Scheduler>
      scheduler_;  // made when the first incarnation says how many blocks there are
  std::map<RequestId, std::unique_ptr<ActiveRequest>> requests_;
  std::unordered_map<SequenceId, SequenceOwner> owners_;
  std::map<RequestId, Unadmitted> unadmitted_;  // in order of arrival
  std::deque<StepInFlight> in_flight_;
  std::vector<Executed> untold_;  // in order
  std::unique_ptr<Wiring> wiring_;
  uint64_t epoch_ = 0;
  // The newest epoch that was lost, and why: word of it may come before the epoch's OnReady.
  uint64_t lost_epoch_ = 0;
  absl::Status lost_status_;
  uint64_t num_steps_ = 0;
  uint64_t num_generated_tokens_ = 0;
  uint64_t num_recoveries_ = 0;

  mutable absl::Mutex status_mutex_;
  EngineStatus status_ ABSL_GUARDED_BY(status_mutex_);

  std::unique_ptr<Replica> replica_;
  std::thread thread_;
};

}  // namespace sluice
