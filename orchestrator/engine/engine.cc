#include "orchestrator/engine/engine.h"

#include <utility>

#include "orchestrator/text/grpc_detokenize.h"

namespace sluice {
namespace {

std::optional<TextStreams> TextOver(std::shared_ptr<grpc::Channel> tokenizer,
                                    const std::string& digest, const Post& post) {
  if (tokenizer == nullptr) return std::nullopt;
  return std::optional<TextStreams>(std::in_place,
                                    DetokenizeOver(std::move(tokenizer), post, digest));
}

}  // namespace

Engine::Engine(EngineOptions options, ReplicaOptions replica, Dialer* dialer,
               std::shared_ptr<grpc::Channel> tokenizer, ProgressWatch* progress,
               std::optional<ReplicaOptions> draft_model)
    : max_request_work_(options.max_request_work),
      kv_events_(options.kv_events),
      progress_(progress),
      post_(loop_.post()),
      network_(dialer, post_, replica.orchestrator),
      replica_(std::move(replica), &network_),
      text_(TextOver(std::move(tokenizer), options.tokenizer_digest, post_)),
      core_(std::move(options), &replica_, text_.has_value() ? &*text_ : nullptr,
            ConnectDraftModel(std::move(draft_model))),
      status_(core_.status()) {
  loop_.Start(this);
}

Replica* Engine::ConnectDraftModel(std::optional<ReplicaOptions> options) {
  if (!options.has_value()) return nullptr;
  draft_replica_.emplace(*std::move(options), &network_);
  return &*draft_replica_;
}

Engine::~Engine() {
  loop_.Stop();
  core_.Shutdown();
}

RequestId Engine::Submit(EngineRequest request, std::shared_ptr<RequestSink> sink) {
  const RequestId id = next_request_++;
  post_([this, id, request = std::move(request), sink = std::move(sink)]() mutable {
    core_.Submit(id, std::move(request), std::move(sink));
  });
  return id;
}

void Engine::Cancel(RequestId id) {
  post_([this, id] { core_.Cancel(id); });
}

void Engine::SetBackpressured(RequestId id, bool backpressured) {
  post_([this, id, backpressured] { core_.SetBackpressured(id, backpressured); });
}

std::shared_ptr<WorkMeter> Engine::MeterFor(const std::string& tenant) {
  return std::make_shared<WorkMeter>(max_request_work_,
                                     [this, post = post_, tenant](absl::Duration work) {
                                       post([this, tenant, work] { core_.BillWork(tenant, work); });
                                     });
}

void Engine::Report(LedgerQuery query, std::function<void(const LedgerReport&)> callback) {
  post_([this, query = std::move(query), callback = std::move(callback)] {
    callback(core_.Report(query, SteadyTime::Now()));
  });
}

void Engine::SubscribeToKvEvents(std::shared_ptr<KvSubscriber> subscriber) {
  if (kv_events_ == nullptr) return;
  post_([this, subscriber = std::move(subscriber)] { kv_events_->Subscribe(subscriber); });
}

void Engine::UnsubscribeFromKvEvents(std::shared_ptr<KvSubscriber> subscriber) {
  if (kv_events_ == nullptr) return;
  post_([this, subscriber = std::move(subscriber)] { kv_events_->Unsubscribe(subscriber.get()); });
}

SteadyTime Engine::Advance(SteadyTime now) {
  const ProgressWatch::Work work(progress_, "round");
  const SteadyTime wake = core_.Advance(now);
  EngineStatus status = core_.status();
  absl::MutexLock lock(&mutex_);
  std::swap(status_, status);
  return wake;
}

EngineStatus Engine::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

}  // namespace sluice
