#include "orchestrator/pipeline/wiring.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "orchestrator/pipeline/step_messages.h"

namespace sluice {

void Wiring::Shared::Opened() {
  absl::MutexLock lock(&mutex);
  ++num_opened;
}

void Wiring::Shared::Executed(const v1::SamplerExecuted& executed) {
  absl::StatusOr<std::vector<RowResult>> rows = ResultsFrom(executed);
  if (!rows.ok()) return Lost("the sampler", rows.status());
  // Held during the call, so that the wiring's destructor waits for a callback that is under way.
  absl::MutexLock lock(&mutex);
  if (handler.on_executed != nullptr) handler.on_executed(executed.step_id(), *std::move(rows));
}

void Wiring::Shared::Lost(const std::string& who, const absl::Status& status) {
  absl::MutexLock lock(&mutex);
  if (!lost.ok()) return;
  lost = status.ok() ? absl::UnavailableError(absl::StrCat(who, " ended its stream"))
                     : Annotate(status, who);
  if (handler.on_lost != nullptr) handler.on_lost(lost);
}

Wiring::Wiring(const WiringOptions& options, Handler handler)
    : options_(options), shared_(std::make_shared<Shared>()) {
  absl::MutexLock lock(&shared_->mutex);
  shared_->handler = std::move(handler);
}

Wiring::~Wiring() {
  {
    absl::MutexLock lock(&shared_->mutex);
    shared_->handler = {};
  }
  if (embedding_ != nullptr) embedding_->Cancel();
  for (const auto& shard : shards_) shard->Cancel();
  if (sampler_ != nullptr) sampler_->Cancel();
}

absl::StatusOr<std::unique_ptr<Wiring>> Wiring::Open(const Topology& topology, Dialer& dialer,
                                                     const WiringOptions& options,
                                                     Handler handler) {
  // Until everything is open, a loss is the result of this call and not yet an event.
  auto wiring = std::unique_ptr<Wiring>(new Wiring(options, {}));
  absl::Status status = wiring->OpenSampler(topology.sampler, dialer);
  std::string next_stage = topology.sampler;
  for (int stage = topology.num_stages() - 1; status.ok() && stage >= 0; --stage) {
    status = wiring->OpenStage(stage, topology.shards[stage], next_stage, dialer);
    next_stage = topology.shards[stage].front();
  }
  if (status.ok()) status = wiring->OpenEmbedding(topology.embedding, next_stage, dialer);
  if (!status.ok()) return status;
  absl::MutexLock lock(&wiring->shared_->mutex);
  if (!wiring->shared_->lost.ok()) return wiring->shared_->lost;
  wiring->shared_->handler = std::move(handler);
  return wiring;
}

absl::Status Wiring::AwaitOpened(int num_streams) {
  struct Goal {
    Shared* shared;
    int num_streams;
  } goal{shared_.get(), num_streams};
  absl::MutexLock lock(&shared_->mutex);
  const bool decided = shared_->mutex.AwaitWithTimeout(
      absl::Condition(
          +[](Goal* goal) ABSL_NO_THREAD_SAFETY_ANALYSIS {
            return goal->shared->num_opened >= goal->num_streams || !goal->shared->lost.ok();
          },
          &goal),
      options_.open_timeout);
  if (!shared_->lost.ok()) return shared_->lost;
  if (!decided) return absl::DeadlineExceededError("a stage did not answer Open in time");
  return absl::OkStatus();
}

absl::Status Wiring::OpenSampler(const std::string& address, Dialer& dialer) {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer.Dial(address);
  if (!channel.ok()) return channel.status();
  const auto stub = v1::SamplerService::NewStub(*channel);
  const std::string who = absl::StrCat("sampler at ", address);
  sampler_ = SamplerStream::Start(
      [&stub](auto* context, auto* stream) { stub->async()->Run(context, stream); },
      {.on_response =
           [shared = shared_](const v1::SamplerRunResponse& response) {
             if (response.has_opened()) shared->Opened();
             if (response.has_executed()) shared->Executed(response.executed());
           },
       .on_done = [shared = shared_,
                   who](const absl::Status& status) { shared->Lost(who, status); }});
  v1::SamplerRunRequest request;
  request.mutable_open()->set_epoch(options_.epoch);
  request.mutable_open()->set_model_fingerprint(options_.model_fingerprint);
  sampler_->Send(std::move(request));
  return AwaitOpened(1);
}

absl::Status Wiring::OpenStage(int stage, const std::vector<std::string>& addresses,
                               const std::string& next_stage, Dialer& dialer) {
  v1::ShardRunRequest request;
  v1::ShardOpen& open = *request.mutable_open();
  open.set_epoch(options_.epoch);
  open.set_next_stage(next_stage);
  open.set_num_kv_blocks(options_.num_kv_blocks);
  open.set_model_fingerprint(options_.model_fingerprint);
  open.set_communicator(options_.rank_transport == RankTransport::kSharedMemory
                            ? v1::COMMUNICATOR_KIND_SHM
                            : v1::COMMUNICATOR_KIND_GLOO);
  open.set_communicator_name(absl::StrCat("sluice-", options_.epoch, "-", stage));
  open.set_rendezvous_address(addresses.front());
  // All ranks at once: joining their communicator, each waits for the others.
  for (size_t rank = 0; rank < addresses.size(); ++rank) {
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer.Dial(addresses[rank]);
    if (!channel.ok()) return channel.status();
    const auto stub = v1::ShardService::NewStub(*channel);
    const std::string who = absl::StrCat("shard ", stage, "/", rank, " at ", addresses[rank]);
    shards_.push_back(ShardStream::Start(
        [&stub](auto* context, auto* stream) { stub->async()->Run(context, stream); },
        {.on_response =
             [shared = shared_](const v1::ShardRunResponse& response) {
               if (response.has_opened()) shared->Opened();
             },
         .on_done = [shared = shared_,
                     who](const absl::Status& status) { shared->Lost(who, status); }}));
    shards_.back()->Send(request);
    if (rank == 0) rank_zero_.push_back(shards_.back());
  }
  return AwaitOpened(1 + static_cast<int>(shards_.size()));
}

absl::Status Wiring::OpenEmbedding(const std::string& address, const std::string& next_stage,
                                   Dialer& dialer) {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer.Dial(address);
  if (!channel.ok()) return channel.status();
  const auto stub = v1::EmbeddingService::NewStub(*channel);
  const std::string who = absl::StrCat("embedding at ", address);
  embedding_ = EmbeddingStream::Start(
      [&stub](auto* context, auto* stream) { stub->async()->Run(context, stream); },
      {.on_response =
           [shared = shared_](const v1::EmbeddingRunResponse& response) {
             if (response.has_opened()) shared->Opened();
           },
       .on_done = [shared = shared_,
                   who](const absl::Status& status) { shared->Lost(who, status); }});
  v1::EmbeddingRunRequest request;
  request.mutable_open()->set_epoch(options_.epoch);
  request.mutable_open()->set_next_stage(next_stage);
  request.mutable_open()->set_model_fingerprint(options_.model_fingerprint);
  embedding_->Send(std::move(request));
  return AwaitOpened(2 + static_cast<int>(shards_.size()));
}

void Wiring::Execute(const Step& step, absl::Span<const RowRequest> rows) {
  // The embedding has the least to prepare and the longest way to go: first.
  embedding_->Send(EmbeddingMessage(options_.epoch, step));
  const v1::ShardRunRequest shard_message = ShardMessage(options_.epoch, step);
  for (const auto& shard : rank_zero_) shard->Send(shard_message);
  sampler_->Send(SamplerMessage(options_.epoch, step, rows));
}

}  // namespace sluice
