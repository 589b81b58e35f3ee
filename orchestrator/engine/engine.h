// The engine as the rest of the orchestrator sees it: EngineCore on an event loop of its own, over
// a replica and a tokenizer that are reached by gRPC.
//
// Thread-safe. Everything happens on the loop; callers only leave messages for it.
#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "orchestrator/engine/engine_core.h"
#include "orchestrator/engine/request.h"
#include "orchestrator/kv_events/kv_event_publisher.h"
#include "orchestrator/pipeline/connected_replica.h"
#include "orchestrator/pipeline/grpc_stage_network.h"
#include "orchestrator/text/text_streams.h"
#include "services/common/event_loop.h"
#include "services/rpc/transport.h"
#include "services/watch/progress_watch.h"
#include "services/work/work_owner.h"

namespace sluice {

class Engine final : private EventLoop::Task {
 public:
  // `dialer` and `progress` are borrowed; `tokenizer` is null for a model without one, `progress`
  // where nobody watches the loop. `draft_model` has the processes of one that drafts.
  Engine(EngineOptions options, ReplicaOptions replica, Dialer* dialer,
         std::shared_ptr<grpc::Channel> tokenizer, ProgressWatch* progress = nullptr,
         std::optional<ReplicaOptions> draft_model = std::nullopt);
  // Ends every request with UNAVAILABLE.
  ~Engine() override;

  // The request's events go to `sink`; a refusal is OnFailed with
  //   INVALID_ARGUMENT     prompt and new tokens do not fit the context or the KV cache
  //   RESOURCE_EXHAUSTED   too many sequences wait
  RequestId Submit(EngineRequest request, std::shared_ptr<RequestSink> sink);

  // The client has gone: its sequences end, nothing is told to the sink any more.
  void Cancel(RequestId id);

  // Whether the request's client reads what is sent to it. While it does not, the request is
  // paused; RESOURCE_EXHAUSTED ends it after EngineOptions::unread_timeout.
  void SetBackpressured(RequestId id, bool backpressured);

  // For the work outside of steps that is done for one request, or call, of the tenant: bounds it to
  // EngineOptions::max_request_work, and bills the tenant, as for tokens. May outlive the engine.
  std::shared_ptr<WorkMeter> MeterFor(const std::string& tenant);

  // Calls back with the ledgers asked for, from another thread.
  void Report(LedgerQuery query, std::function<void(const LedgerReport&)> callback);

  // Sends what the cache holds, and what changes from then on, until it is told that no more is wanted.
  // Does nothing without EngineOptions::kv_events.
  void SubscribeToKvEvents(std::shared_ptr<KvSubscriber> subscriber);
  void UnsubscribeFromKvEvents(std::shared_ptr<KvSubscriber> subscriber);

  EngineStatus status() const;
  const Topology& topology() const { return replica_.topology(); }

 private:
  SteadyTime Advance(SteadyTime now) override;
  // Null where there is none.
  Replica* ConnectDraftModel(std::optional<ReplicaOptions> options);

  const absl::Duration max_request_work_;
  KvEventPublisher* const kv_events_;
  ProgressWatch* const progress_;
  EventLoop loop_;
  const Post post_;
  std::atomic<RequestId> next_request_ = 1;

  // Of the loop's thread.
  GrpcStageNetwork network_;
  ConnectedReplica replica_;
  std::optional<ConnectedReplica> draft_replica_;
  std::optional<TextStreams> text_;
  EngineCore core_;

  mutable absl::Mutex mutex_;
  EngineStatus status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
