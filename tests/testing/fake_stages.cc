#include "tests/testing/fake_stages.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "services/messages/wiring_message.h"
#include "services/streams/server_stream.h"

namespace sluice::testing {
namespace {

constexpr int32_t kEmpty = -1;  // of a slot that nobody wrote

std::string ShardName(int stage, int rank) { return absl::StrCat("shard-", stage, "-", rank); }

template <class Stream>
std::function<void(const absl::Status&)> Closer(Stream& stream) {
  return [kept = stream.shared_from_this()](const absl::Status& status) { kept->Close(status); };
}

template <class Stream>
void EndStream(Stream& stream) {
  stream.Close(absl::CancelledError("the orchestrator ended the stream"));
}

grpc::ServerUnaryReactor* Done(grpc::CallbackServerContext* context) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace

struct FakeStages::Fake {
  v1::GetShardInfoResponse info;
  int num_probes = 0;
  std::vector<uint64_t> epochs;
  v1::ShardOpen last_open;
  absl::Status refusal;
  bool is_of_another_wiring = false;
  std::function<void(v1::GetShardInfoResponse&)> change_on_open;
  int num_ends_after_open = 0;
  std::function<void(const absl::Status&)> close;
};

template <class OpenMessage, class OpenedMessage>
void FakeStages::AnswerOpen(const std::string& name, const OpenMessage& open,
                            OpenedMessage& opened) {
  absl::MutexLock lock(&mutex_);
  WiringIdentity wiring = *WiringOf(open);
  if (fakes_.at(name).is_of_another_wiring) wiring.nonce[0] ^= std::byte{1};
  SetWiring(wiring, opened);
}

class FakeStages::Embedding final : public v1::EmbeddingService::CallbackService {
 public:
  explicit Embedding(FakeStages* stages) : stages_(stages) {}

  grpc::ServerBidiReactor<v1::EmbeddingRunRequest, v1::EmbeddingRunResponse>* Run(
      grpc::CallbackServerContext*) override {
    using Stream = ServerStream<v1::EmbeddingRunRequest, v1::EmbeddingRunResponse>;
    return Stream::Start(
        {.on_request =
             [this](Stream& stream, const v1::EmbeddingRunRequest& request) {
               if (request.has_execute()) return stages_->AddEmbedding(request.execute());
               if (!stages_->Open("embedding", request.open().epoch(), Closer(stream))) return;
               v1::EmbeddingRunResponse response;
               stages_->AnswerOpen("embedding", request.open(), *response.mutable_opened());
               stream.Send(std::move(response));
               stages_->Opened("embedding");
             },
         .on_requests_end = EndStream<Stream>});
  }

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const v1::GetEmbeddingInfoRequest*,
                                    v1::GetEmbeddingInfoResponse* response) override {
    const v1::GetShardInfoResponse info = stages_->Probe("embedding");
    response->set_model_fingerprint(info.model_fingerprint());
    response->set_weights_digest(info.weights_digest());
    return Done(context);
  }

 private:
  FakeStages* const stages_;
};

class FakeStages::Shard final : public v1::ShardService::CallbackService {
 public:
  Shard(FakeStages* stages, std::string name) : stages_(stages), name_(std::move(name)) {}

  grpc::ServerBidiReactor<v1::ShardRunRequest, v1::ShardRunResponse>* Run(
      grpc::CallbackServerContext*) override {
    using Stream = ServerStream<v1::ShardRunRequest, v1::ShardRunResponse>;
    return Stream::Start({.on_request =
                              [this](Stream& stream, const v1::ShardRunRequest& request) {
                                if (request.has_execute())
                                  return stages_->AddShard(request.execute());
                                {
                                  absl::MutexLock lock(&stages_->mutex_);
                                  stages_->fakes_.at(name_).last_open = request.open();
                                }
                                if (!stages_->Open(name_, request.open().epoch(), Closer(stream)))
                                  return;
                                v1::ShardRunResponse response;
                                stages_->AnswerOpen(name_, request.open(),
                                                    *response.mutable_opened());
                                stream.Send(std::move(response));
                                stages_->Opened(name_);
                              },
                          .on_requests_end = EndStream<Stream>});
  }

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const v1::GetShardInfoRequest*,
                                    v1::GetShardInfoResponse* response) override {
    *response = stages_->Probe(name_);
    return Done(context);
  }

 private:
  FakeStages* const stages_;
  const std::string name_;
};

class FakeStages::Sampler final : public v1::SamplerService::CallbackService {
 public:
  explicit Sampler(FakeStages* stages) : stages_(stages) {}

  grpc::ServerBidiReactor<v1::SamplerRunRequest, v1::SamplerRunResponse>* Run(
      grpc::CallbackServerContext*) override {
    using Stream = ServerStream<v1::SamplerRunRequest, v1::SamplerRunResponse>;
    return Stream::Start(
        {.on_request =
             [this](Stream& stream, const v1::SamplerRunRequest& request) {
               if (request.has_execute()) {
                 return stages_->AddSampler(
                     request.execute(),
                     [kept = stream.shared_from_this()](v1::SamplerRunResponse response) {
                       kept->Send(std::move(response));
                     });
               }
               if (!stages_->Open("sampler", request.open().epoch(), Closer(stream))) return;
               v1::SamplerRunResponse response;
               stages_->AnswerOpen("sampler", request.open(), *response.mutable_opened());
               stream.Send(std::move(response));
               stages_->Opened("sampler");
             },
         .on_requests_end = EndStream<Stream>});
  }

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const v1::GetSamplerInfoRequest*,
                                    v1::GetSamplerInfoResponse* response) override {
    const v1::GetShardInfoResponse info = stages_->Probe("sampler");
    response->set_model_fingerprint(info.model_fingerprint());
    response->set_arithmetic(info.arithmetic());
    response->set_weights_digest(info.weights_digest());
    return Done(context);
  }

 private:
  FakeStages* const stages_;
};

FakeStages::FakeStages(const FakeStagesOptions& options, Dialer* dialer)
    : options_(options), dialer_(dialer) {
  const auto serve = [this](const std::string& name, std::unique_ptr<grpc::Service> service) {
    absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Start({.address = absl::StrCat("inproc:", name), .services = {service.get()}});
    SLUICE_CHECK(server.ok());
    services_.push_back(std::move(service));
    servers_[name] = *std::move(server);
    absl::MutexLock lock(&mutex_);
    fakes_[name].info.set_model_fingerprint(options_.fingerprint);
    fakes_[name].info.set_arithmetic("fake");
  };
  serve("embedding", std::make_unique<Embedding>(this));
  serve("sampler", std::make_unique<Sampler>(this));
  for (int stage = 0; stage < options_.num_stages; ++stage) {
    for (int rank = 0; rank < options_.num_ranks; ++rank) {
      const std::string name = ShardName(stage, rank);
      serve(name, std::make_unique<Shard>(this, name));
      ChangeInfo(name, [&](v1::GetShardInfoResponse& info) {
        info.set_stage(stage);
        info.set_num_stages(options_.num_stages);
        info.set_rank(rank);
        info.set_num_ranks(options_.num_ranks);
        info.set_block_size(options_.block_size);
        info.set_num_kv_blocks(options_.num_kv_blocks);
        info.set_max_step_tokens(1024);
      });
    }
  }
}

FakeStages::~FakeStages() { servers_.clear(); }

Topology FakeStages::topology() const {
  Topology topology{.embedding = "inproc:embedding", .shards = {}, .sampler = "inproc:sampler"};
  for (int stage = 0; stage < options_.num_stages; ++stage) {
    topology.shards.emplace_back();
    for (int rank = 0; rank < options_.num_ranks; ++rank) {
      topology.shards.back().push_back(absl::StrCat("inproc:", ShardName(stage, rank)));
    }
  }
  return topology;
}

std::vector<std::string> FakeStages::names() const {
  std::vector<std::string> names = {"embedding"};
  for (int stage = 0; stage < options_.num_stages; ++stage) {
    for (int rank = 0; rank < options_.num_ranks; ++rank) names.push_back(ShardName(stage, rank));
  }
  names.push_back("sampler");
  return names;
}

void FakeStages::BringUp(const std::string& name) {
  dialer_->RegisterInProcess(name, servers_.at(name)->grpc_server());
}

void FakeStages::BringUpAll() {
  for (const std::string& name : names()) BringUp(name);
}

void FakeStages::SetJudge(Judge judge) {
  absl::MutexLock lock(&mutex_);
  judge_ = std::move(judge);
}

void FakeStages::SetRowError(RowError row_error) {
  absl::MutexLock lock(&mutex_);
  row_error_ = std::move(row_error);
}

void FakeStages::EndAfterOpen(const std::string& name, int count) {
  absl::MutexLock lock(&mutex_);
  fakes_.at(name).num_ends_after_open = count;
}

void FakeStages::RefuseOpen(const std::string& name, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  fakes_.at(name).refusal = status;
}

void FakeStages::AnswerAsAnotherWiring(const std::string& name, bool another) {
  absl::MutexLock lock(&mutex_);
  fakes_.at(name).is_of_another_wiring = another;
}

void FakeStages::End(const std::string& name, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  fakes_.at(name).close(status);
}

void FakeStages::ChangeInfo(const std::string& name,
                            const std::function<void(v1::GetShardInfoResponse&)>& change) {
  absl::MutexLock lock(&mutex_);
  change(fakes_.at(name).info);
}

void FakeStages::ReplaceOnOpen(const std::string& name,
                               std::function<void(v1::GetShardInfoResponse&)> change) {
  absl::MutexLock lock(&mutex_);
  fakes_.at(name).change_on_open = std::move(change);
}

std::vector<uint64_t> FakeStages::epochs(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  return fakes_.at(name).epochs;
}

v1::ShardOpen FakeStages::last_open(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  return fakes_.at(name).last_open;
}

int FakeStages::num_probes(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  return fakes_.at(name).num_probes;
}

v1::GetShardInfoResponse FakeStages::Probe(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  Fake& fake = fakes_.at(name);
  ++fake.num_probes;
  return fake.info;
}

bool FakeStages::Open(const std::string& name, uint64_t epoch,
                      std::function<void(const absl::Status&)> close) {
  absl::MutexLock lock(&mutex_);
  Fake& fake = fakes_.at(name);
  if (const auto change = std::exchange(fake.change_on_open, nullptr)) change(fake.info);
  if (!fake.refusal.ok()) {
    close(fake.refusal);
    return false;
  }
  fake.epochs.push_back(epoch);
  fake.close = std::move(close);
  if (epoch > epoch_) {
    epoch_ = epoch;
    stands_still_ = false;
    pending_.clear();
    tables_.clear();
    chosen_.clear();
    seeds_.clear();
    memory_.assign(static_cast<size_t>(options_.num_kv_blocks) * options_.block_size, kEmpty);
  }
  return true;
}

void FakeStages::Opened(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  Fake& fake = fakes_.at(name);
  if (fake.num_ends_after_open == 0) return;
  --fake.num_ends_after_open;
  fake.close(absl::UnavailableError("ended right after Open"));
}

void FakeStages::GiveUp() {
  stands_still_ = true;
  fakes_.at(ShardName(0, 0)).close(absl::InternalError("the shard gave up"));
}

bool FakeStages::Runs(uint64_t epoch) const { return epoch == epoch_ && !stands_still_; }

}  // namespace sluice::testing
