// Both ends of the stream on which the sampler sends chosen tokens to the embedding
// (protos/sluice/v1/chosen_tokens.proto).
#pragma once

#include <grpcpp/channel.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kernels/communicator/wiring_identity.h"
#include "services/common/steady_time.h"
#include "services/lane/lane_inbox.h"
#include "services/lane/lane_outbox.h"
#include "services/streams/client_stream.h"
#include "services/streams/server_stream.h"
#include "sluice/v1/chosen_tokens.grpc.pb.h"

namespace sluice {

// Serves ChosenTokensService for the session that is wired in at the moment. Thread-safe.
class ChosenTokensPublisher final : public v1::ChosenTokensService::CallbackService {
 public:
  // Accepts a follower of this wiring from now on, and no other.
  void Open(const WiringIdentity& wiring);
  // Ends the stream of `epoch`, if that is still the current one.
  void Close(uint64_t epoch, const absl::Status& reason);

  // Sends to the follower, if there is one; steps of an epoch in order.
  void Publish(uint64_t epoch, v1::Chosen chosen);

  grpc::ServerBidiReactor<v1::FollowRequest, v1::FollowResponse>* Follow(
      grpc::CallbackServerContext* context) override;

 private:
  using Stream = ServerStream<v1::FollowRequest, v1::FollowResponse>;

  // OK and this is the stream of the wiring, or ABORTED.
  absl::Status Accept(const v1::FollowRequest& request, Stream& stream);

  // Who follows.
  struct Follower {
    std::shared_ptr<Stream> stream;
    LaneOutbox<v1::FollowResponse> outbox;
  };

  // Ends what `follower`, which may be null, follows.
  static void End(const std::shared_ptr<Follower>& follower, const absl::Status& reason);

  absl::Mutex mutex_;
  WiringIdentity wiring_ ABSL_GUARDED_BY(mutex_);
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Follower> follower_ ABSL_GUARDED_BY(mutex_);
};

// Whether the other end is offered a lane.
enum class LaneUse { kNone, kOffered };

// Follows the sampler, and remembers what it chose in the last kRemembered steps. TokensOf() and
// ComputedFor() belong to one thread; the rest is thread-safe.
class ChosenTokensFollower {
 public:
  // Of those that a plan may name, and as many again that come before it is looked at.
  static constexpr uint64_t kRemembered = 128;

  // `on_lost` is called at most once, from another thread, when the stream ends other than by
  // destruction of the follower.
  ChosenTokensFollower(std::shared_ptr<grpc::Channel> sampler, const WiringIdentity& wiring,
                       std::function<void(absl::Status)> on_lost, LaneUse lane = LaneUse::kNone);
  // Ends the stream.
  ~ChosenTokensFollower();

  // Waits until the sampler has accepted the wiring, and has shown that it belongs to it.
  // UNAVAILABLE, ABORTED or DEADLINE_EXCEEDED otherwise.
  absl::Status WaitUntilOpen(SteadyTime deadline);

  // Waits for the tokens of rows from `first_row` on, one for each of `tokens`. INVALID_ARGUMENT
  // where a later step has been told, the step has no such rows, steps come out of order, or the
  // lane is damaged; why the stream ended, once it has.
  absl::Status TokensOf(uint64_t step_id, int32_t first_row, absl::Span<int32_t> tokens);
  // Chosen.computed_ns of a step whose tokens have come, 0 for the newest; empty where it is
  // forgotten, or there is none.
  std::vector<uint64_t> ComputedFor(uint64_t step_id);

  // Ends the stream; those who wait and on_lost are told.
  void Cancel() { stream_->Cancel(); }

 private:
  using Stream = ClientStream<v1::FollowRequest, v1::FollowResponse>;

  // Outlives the follower while its stream ends.
  struct Shared {
    explicit Shared(const WiringIdentity& of) : wiring(of) {}

    const WiringIdentity wiring;
    LaneInbox<v1::FollowResponse> inbox;

    std::mutex mutex;  // guards what follows
    std::condition_variable changed;
    bool following = false;  // changed by OnResponse() alone
    std::optional<absl::Status> ended;
    std::function<void(absl::Status)> on_lost;

    void OnResponse(v1::FollowResponse response);
    void OnDone(const absl::Status& status);
  };

  // INVALID_ARGUMENT where the step does not follow the newest one.
  absl::Status Remember(v1::FollowResponse response);

  const std::unique_ptr<v1::ChosenTokensService::Stub> stub_;
  const std::shared_ptr<Shared> shared_;
  std::shared_ptr<Stream> stream_;

  // Of the thread that asks.
  std::map<uint64_t, v1::Chosen> chosen_;  // by step
  uint64_t newest_ = 0;
};

}  // namespace sluice
