// Both ends of the stream of hidden rows between stages (StageService.Push).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kernels/communicator/wiring_identity.h"
#include "services/common/steady_time.h"
#include "services/lane/lane_inbox.h"
#include "services/lane/lane_outbox.h"
#include "services/rows/row_ring.h"
#include "services/rows/row_ring_writer.h"
#include "services/rows/step_rows.h"
#include "services/rpc/transport.h"
#include "services/streams/client_stream.h"
#include "services/streams/server_stream.h"
#include "sluice/v1/stage.grpc.pb.h"

namespace sluice {

// Whether rows may come in a ring of device memory (services/rows).
enum class RingUse { kNone, kTaken };

// Serves Push for the session that is wired in at the moment. Thread-safe.
class ActivationsReceiver {
 public:
  // Gets the rows of each step, with their requests.
  using Inbox = LaneInbox<v1::PushRequest>;

  // Accepts a stream of this wiring from now on, and no other. `ring`: what senders on this host
  // are told.
  void Open(const WiringIdentity& wiring, std::shared_ptr<Inbox> inbox,
            RingUse ring = RingUse::kNone);
  // Ends the stream of `epoch`, if that is still the current one, and drops its inbox.
  void Close(uint64_t epoch, const absl::Status& reason);

  // The ring that the sender of `epoch` offers, once it does; told once.
  std::optional<v1::RowRingOffer> TakeRingOffer(uint64_t epoch);
  // Tells it how far its ring has been taken; 0 that it was opened.
  void TellRingTaken(uint64_t epoch, uint64_t position);

  // Serves a call of Push.
  grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse>* Serve(
      grpc::CallbackServerContext* context);

 private:
  using Stream = ServerStream<v1::PushRequest, v1::PushResponse>;

  void OnRequest(Stream& stream, v1::PushRequest request);
  // OK where this stream was asked for it, once; or FAILED_PRECONDITION.
  absl::Status KeepRingOffer(Stream& stream, v1::RowRingOffer offer);
  // OK and this is the stream of the wiring, or ABORTED.
  absl::Status Accept(const v1::PushOpen& open, Stream& stream);
  // FAILED_PRECONDITION from a stream that was not accepted.
  absl::Status Deliver(const Stream& stream, v1::PushRequest request);

  absl::Mutex mutex_;
  WiringIdentity wiring_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Inbox> inbox_ ABSL_GUARDED_BY(mutex_);  // null: no epoch is open
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  RingUse ring_use_ ABSL_GUARDED_BY(mutex_) = RingUse::kNone;
  bool asks_for_ring_ ABSL_GUARDED_BY(mutex_) = false;  // stream_ was told, and has not answered
  std::optional<v1::RowRingOffer> ring_offer_ ABSL_GUARDED_BY(mutex_);
};

// Sends rows to the next stage. Thread-safe, but for what belongs to the backend's thread.
class ActivationsSender {
 public:
  // `on_lost` is called at most once, from another thread, when the stream ends other than by
  // destruction of the sender. Rows go by `ring`, which is borrowed, where the next stage takes
  // them there; null: they never do.
  ActivationsSender(std::shared_ptr<grpc::Channel> channel, const WiringIdentity& wiring,
                    std::function<void(absl::Status)> on_lost, RowRing* ring = nullptr);
  // Ends the stream.
  ~ActivationsSender();

  // Waits until the next stage has accepted the wiring, and has shown that it belongs to it.
  // UNAVAILABLE, ABORTED or DEADLINE_EXCEEDED otherwise.
  absl::Status WaitUntilOpen(SteadyTime deadline);

  // Offers the ring, where there is one and the next stage would take it. After WaitUntilOpen();
  // belongs to the backend's thread, as Store() does.
  void OfferRing();

  // Puts all rows of a step, or those at `indices` in that order, into the ring or into `step`,
  // which Send() takes next. Waits for the backend's work. Statuses of StepRows::Store.
  absl::Status Store(StepRows& rows, std::optional<absl::Span<const int32_t>> indices,
                     v1::PushStep& step);
  void Send(v1::PushStep step);

  // Ends the stream; WaitUntilOpen() and on_lost tell.
  void Cancel() { stream_->Cancel(); }

 private:
  using Stream = ClientStream<v1::PushRequest, v1::PushResponse>;

  // Outlives the sender while its stream ends.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<absl::Status> opened;         // guarded by mutex
    std::function<void(absl::Status)> on_lost;  // guarded by mutex
    LaneOutbox<v1::PushRequest> outbox;
    RowRingWriter ring;
    std::atomic<bool> takes_ring = false;   // the next stage
    std::atomic<bool> offers_ring = false;  // to the next stage

    const WiringIdentity wiring;

    Shared(const WiringIdentity& of, RowRing* memory) : ring(memory), wiring(of) {}
    void OnResponse(const v1::PushResponse& response);
    void Decide(const absl::Status& status);
  };

  RowRing* const ring_;
  const std::unique_ptr<v1::StageService::Stub> stub_;
  const std::shared_ptr<Shared> shared_;
  std::shared_ptr<Stream> stream_;
};

}  // namespace sluice
