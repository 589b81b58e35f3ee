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

}  // namespace

struct FakeStages::Fake {
  v1::GetStageInfoResponse info;
  int num_probes = 0;
  std::vector<uint64_t> epochs;
  v1::StageOpen last_open;
  absl::Status refusal;
  bool is_of_another_wiring = false;
  bool answers_plans = false;
  std::function<void(v1::GetStageInfoResponse&)> change_on_open;
  int num_ends_after_open = 0;
  std::function<void(const absl::Status&)> close;
};

void FakeStages::AnswerOpen(const std::string& name, const v1::StageOpen& open,
                            v1::StageOpened& opened) {
  absl::MutexLock lock(&mutex_);
  WiringIdentity wiring = *WiringOf(open);
  if (fakes_.at(name).is_of_another_wiring) wiring.nonce[0] ^= std::byte{1};
  SetWiring(wiring, opened);
}

class FakeStages::Service final : public v1::StageService::CallbackService {
 public:
  Service(FakeStages* stages, std::string name) : stages_(stages), name_(std::move(name)) {}

  grpc::ServerBidiReactor<v1::StageRunRequest, v1::StageRunResponse>* Run(
      grpc::CallbackServerContext*) override {
    return Stream::Start(
        {.on_request = [this](Stream& stream,
                              const v1::StageRunRequest& request) { OnRequest(stream, request); },
         .on_requests_end =
             [](Stream& stream) {
               stream.Close(absl::CancelledError("the orchestrator ended the stream"));
             }});
  }

  grpc::ServerUnaryReactor* GetStageInfo(grpc::CallbackServerContext* context,
                                         const v1::GetStageInfoRequest*,
                                         v1::GetStageInfoResponse* response) override {
    *response = stages_->Probe(name_);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  using Stream = ServerStream<v1::StageRunRequest, v1::StageRunResponse>;

  void OnRequest(Stream& stream, const v1::StageRunRequest& request) {
    const std::shared_ptr<Stream> kept = stream.shared_from_this();
    if (request.has_execute() && stages_->AnswersPlans(name_)) {
      v1::StageRunResponse response;
      response.mutable_executed()->set_epoch(request.execute().epoch());
      response.mutable_executed()->set_step_id(request.execute().step_id());
      response.mutable_executed()->mutable_sampler();
      return stream.Send(std::move(response));
    }
    if (request.has_execute()) {
      return stages_->Add(request.execute(), [kept](v1::StageRunResponse response) {
        kept->Send(std::move(response));
      });
    }
    const auto close = [kept](const absl::Status& status) { kept->Close(status); };
    if (!stages_->Open(name_, request.open(), close)) return;
    v1::StageRunResponse response;
    stages_->AnswerOpen(name_, request.open(), *response.mutable_opened());
    stream.Send(std::move(response));
    stages_->Opened(name_);
  }

  FakeStages* const stages_;
  const std::string name_;
};

FakeStages::FakeStages(const FakeStagesOptions& options, Dialer* dialer)
    : options_(options), dialer_(dialer) {
  for (const std::string& name : names()) {
    auto service = std::make_unique<Service>(this, name);
    absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Start({.address = absl::StrCat("inproc:", name), .services = {service.get()}});
    SLUICE_CHECK(server.ok());
    services_.push_back(std::move(service));
    servers_[name] = *std::move(server);
    absl::MutexLock lock(&mutex_);
    v1::GetStageInfoResponse& info = fakes_[name].info;
    info.set_model_fingerprint(options_.fingerprint);
    info.set_arithmetic("fake");
    if (name == "embedding") info.mutable_embedding();
    if (name == "sampler") info.mutable_sampler();
  }
  for (int stage = 0; stage < options_.num_stages; ++stage) {
    for (int rank = 0; rank < options_.num_ranks; ++rank) {
      absl::MutexLock lock(&mutex_);
      v1::ShardInfo& shard = *fakes_.at(ShardName(stage, rank)).info.mutable_shard();
      shard.set_stage(stage);
      shard.set_num_stages(options_.num_stages);
      shard.set_rank(rank);
      shard.set_num_ranks(options_.num_ranks);
      shard.set_block_size(options_.block_size);
      shard.set_num_kv_blocks(options_.num_kv_blocks);
      shard.set_max_step_tokens(1024);
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

void FakeStages::AnswerPlans(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  fakes_.at(name).answers_plans = true;
}

bool FakeStages::AnswersPlans(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  return fakes_.at(name).answers_plans;
}

void FakeStages::End(const std::string& name, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  fakes_.at(name).close(status);
}

void FakeStages::ChangeInfo(const std::string& name,
                            const std::function<void(v1::GetStageInfoResponse&)>& change) {
  absl::MutexLock lock(&mutex_);
  change(fakes_.at(name).info);
}

void FakeStages::ReplaceOnOpen(const std::string& name,
                               std::function<void(v1::GetStageInfoResponse&)> change) {
  absl::MutexLock lock(&mutex_);
  fakes_.at(name).change_on_open = std::move(change);
}

std::vector<uint64_t> FakeStages::epochs(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  return fakes_.at(name).epochs;
}

v1::StageOpen FakeStages::last_open(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  return fakes_.at(name).last_open;
}

int FakeStages::num_probes(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  return fakes_.at(name).num_probes;
}

v1::GetStageInfoResponse FakeStages::Probe(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  Fake& fake = fakes_.at(name);
  ++fake.num_probes;
  return fake.info;
}

bool FakeStages::Open(const std::string& name, const v1::StageOpen& open,
                      std::function<void(const absl::Status&)> close) {
  absl::MutexLock lock(&mutex_);
  Fake& fake = fakes_.at(name);
  const uint64_t epoch = open.epoch();
  fake.last_open = open;
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
