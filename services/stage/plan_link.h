// A stage's connection to its orchestrator in one epoch: plans in, answers out. Both go by the
// stream that the orchestrator opened, or by lanes in shared memory beside it.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kernels/communicator/wiring_identity.h"
#include "services/lane/lane_inbox.h"
#include "services/lane/lane_outbox.h"
#include "services/streams/server_stream.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

// Whether a process gets plans; the other ranks of a stage get theirs from rank 0.
enum class PlanUse { kTaken, kNone };

class PlanLink {
 public:
  using Stream = ServerStream<v1::StageRunRequest, v1::StageRunResponse>;

  PlanLink(const PlanLink&) = delete;
  PlanLink& operator=(const PlanLink&) = delete;

  // Waits for the next plan, in order. Belongs to the thread that computes. What the link was
  // closed with; errors of LaneInbox::Next(); INVALID_ARGUMENT for a request without a plan, or with
  // one for another kind of stage than it was opened as.
  absl::StatusOr<v1::StageExecute> NextPlan();

  // Thread-safe, as the rest.
  void Answer(v1::StageRunResponse&& response);

  // A request with a plan has come by the stream.
  void AddPlan(v1::StageRunRequest request) { plans_.Add(std::move(request)); }

 protected:
  // `open` may offer a lane for answers.
  PlanLink(const v1::StageOpen& open, const WiringIdentity& wiring, std::shared_ptr<Stream> stream);
  ~PlanLink() = default;

  // Answers Open; offers a lane for plans, where they are taken.
  void SendOpened(const WiringIdentity& wiring, PlanUse use);

  // Ends the stream and wakes NextPlan(). The first call decides: returns its reason, also to a
  // later call, such as that of the stream whose end the first one caused.
  absl::Status ClosePlans(const absl::Status& reason);

 private:
  absl::Status FirstReason(const absl::Status& reason);

  absl::Mutex mutex_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  const int kind_;  // field of `oneof kind`
  const std::shared_ptr<Stream> stream_;
  LaneInbox<v1::StageRunRequest> plans_;
  LaneOutbox<v1::StageRunResponse> answers_;
};

}  // namespace sluice
