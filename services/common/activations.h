// The two ends of the stage-to-stage stream (protos/sluice/v1/activations.proto).
#pragma once

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
#include "services/common/client_stream.h"
#include "services/common/server_stream.h"
#include "services/common/steady_time.h"
#include "services/common/transport.h"
#include "services/lane/lane_inbox.h"
#include "services/lane/lane_outbox.h"
#include "sluice/v1/activations.grpc.pb.h"

namespace sluice {

// Serves ActivationsService for the session that is wired in at the moment. Thread-safe.
class ActivationsReceiver final : public v1::ActivationsService::CallbackService {
 public:
  // Gets the rows of each step, with their requests.
  using Inbox = LaneInbox<v1::PushRequest>;

  // Accepts a stream of `epoch` from now on, and no other.
  void Open(uint64_t epoch, std::shared_ptr<Inbox> inbox);
  // Ends the stream of `epoch`, if that is still the current one, and drops its inbox.
  void Close(uint64_t epoch, const absl::Status& reason);

  grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse>* Push(
      grpc::CallbackServerContext* context) override;

 private:
  using Stream = ServerStream<v1::PushRequest, v1::PushResponse>;

  void OnRequest(Stream& stream, v1::PushRequest request);
  // OK and this is the stream of the epoch, or ABORTED.
  absl::Status Accept(uint64_t epoch, Stream& stream);
  absl::Status Deliver(v1::PushRequest request);

  absl::Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<Inbox> inbox_ ABSL_GUARDED_BY(mutex_);  // null: no epoch is open
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
};

// Sends rows to the next stage. Thread-safe.
class ActivationsSender {
 public:
  // `on_lost` is called at most once, from another thread, when the stream ends other than by
  // destruction of the sender.
  ActivationsSender(std::shared_ptr<grpc::Channel> channel, uint64_t epoch,
                    std::function<void(absl::Status)> on_lost);
  // Ends the stream.
  ~ActivationsSender();

  // Waits until the next stage has accepted the epoch. UNAVAILABLE, ABORTED or DEADLINE_EXCEEDED
  // otherwise.
  absl::Status WaitUntilOpen(SteadyTime deadline);

  // `computed_ns`: PushStep.computed_ns.
  void Send(uint64_t step_id, v1::Tensor hidden, absl::Span<const uint64_t> computed_ns);

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

    void OnResponse(const v1::PushResponse& response);
    void Decide(const absl::Status& status);
  };

  const uint64_t epoch_;
  const std::unique_ptr<v1::ActivationsService::Stub> stub_;
  const std::shared_ptr<Shared> shared_;
  std::shared_ptr<Stream> stream_;
};

}  // namespace sluice
