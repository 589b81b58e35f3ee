// A stage's connection to its orchestrator in one epoch: plans in, answers out. Both go by the
// stream that the orchestrator opened, or by lanes in shared memory beside it.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "services/lane/lane_inbox.h"
#include "services/lane/lane_outbox.h"
#include "services/messages/wiring_message.h"
#include "services/stage/lane_offer.h"
#include "services/streams/server_stream.h"

namespace sluice {

// Whether a process gets plans; the other ranks of a stage get theirs from rank 0.
enum class PlanUse { kTaken, kNone };

// Request and Response: of the Run stream of a kind of stage.
template <class Request, class Response>
class PlanLink {
 public:
  using Plan = std::remove_cvref_t<decltype(std::declval<const Request&>().execute())>;
  using Stream = ServerStream<Request, Response>;

  PlanLink(const PlanLink&) = delete;
  PlanLink& operator=(const PlanLink&) = delete;

  // Waits for the next plan, in order. Belongs to the thread that computes. What the link was
  // closed with; errors of LaneInbox::Next(); INVALID_ARGUMENT for a request without a plan.
  absl::StatusOr<Plan> NextPlan() {
    absl::StatusOr<Request> request = plans_.Next();
    if (!request.ok()) return request.status();
    if (!request->has_execute()) return absl::InvalidArgumentError("a request without a plan");
    return std::move(*request->mutable_execute());
  }

  // Thread-safe, as the rest.
  void Answer(Response&& response) {
    if constexpr (requires { response.set_sequence_number(0); }) {
      answers_.Send(std::move(response),
                    [this](Response&& unsent) { stream_->Send(std::move(unsent)); });
    } else {
      stream_->Send(std::move(response));
    }
  }

  // A request with a plan has come by the stream.
  void AddPlan(Request request) { plans_.Add(std::move(request)); }

 protected:
  // `open` may offer a lane for answers.
  template <class OpenMessage>
  PlanLink(const OpenMessage& open, const WiringIdentity& wiring, std::shared_ptr<Stream> stream)
      : stream_(std::move(stream)) {
    if constexpr (requires { open.lane(); }) {
      if (open.has_lane() && stream_->on_this_host()) {
        NoteUnused("orchestrator", answers_.Open(open.lane(), wiring));
      }
    }
  }
  ~PlanLink() = default;

  // Answers Open; offers a lane for plans, where they are taken.
  void SendOpened(const WiringIdentity& wiring, PlanUse use) {
    Response response;
    SetWiring(wiring, *response.mutable_opened());
    if (use == PlanUse::kTaken) OfferLane(*stream_, plans_, wiring, *response.mutable_opened());
    stream_->Send(std::move(response));
  }

  // Ends the stream and wakes NextPlan(). The first call decides: returns its reason, also to a
  // later call, such as that of the stream whose end the first one caused.
  absl::Status ClosePlans(const absl::Status& reason) {
    const absl::Status first = FirstReason(reason);
    stream_->Close(first);
    plans_.Close(first);
    return first;
  }

 private:
  absl::Status FirstReason(const absl::Status& reason) {
    absl::MutexLock lock(&mutex_);
    if (closed_.ok()) closed_ = reason;
    return closed_;
  }

  absl::Mutex mutex_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<Stream> stream_;
  LaneInbox<Request> plans_;
  LaneOutbox<Response> answers_;
};

}  // namespace sluice
