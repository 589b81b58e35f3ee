#include "tests/testing/fake_stages.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "services/common/server_stream.h"

namespace sluice::testing {
namespace {

constexpr int32_t kVocabulary = 50;
constexpr int32_t kEmpty = -1;

int32_t NextToken(const std::vector<int32_t>& tokens, uint64_t seed, int sequence_index) {
  uint64_t hash = seed * 31 + static_cast<uint64_t>(sequence_index);
  for (int32_t token : tokens) {
    hash = (hash ^ static_cast<uint64_t>(token)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return static_cast<int32_t>(hash % kVocabulary);
}

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

std::vector<int32_t> FakeTokens(std::vector<int32_t> prompt, uint64_t seed, int sequence_index,
                                int count) {
  std::vector<int32_t> generated;
  for (int i = 0; i < count; ++i) {
    generated.push_back(NextToken(prompt, seed, sequence_index));
    prompt.push_back(generated.back());
  }
  return generated;
}

struct FakeStages::Fake {
  v1::GetShardInfoResponse info;
  int num_probes = 0;
  std::vector<uint64_t> epochs;
  v1::ShardOpen last_open;
  absl::Status refusal;
  int num_ends_after_open = 0;
  std::function<void(const absl::Status&)> close;
};

struct FakeStages::Pending {
  bool has_embedding = false;
  v1::EmbeddingExecute embedding;
  int num_shards = 0;
  v1::ShardExecute shard;
  std::function<void(v1::SamplerRunResponse)> answer;  // with the sampler's plan
  v1::SamplerExecute sampler;
};

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
               response.mutable_opened()->set_epoch(request.open().epoch());
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
                                response.mutable_opened()->set_epoch(request.open().epoch());
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
               response.mutable_opened()->set_epoch(request.open().epoch());
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

void FakeStages::End(const std::string& name, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  fakes_.at(name).close(status);
}

void FakeStages::ChangeInfo(const std::string& name,
                            const std::function<void(v1::GetShardInfoResponse&)>& change) {
  absl::MutexLock lock(&mutex_);
  change(fakes_.at(name).info);
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
  if (!fake.refusal.ok()) {
    close(fake.refusal);
    return false;
  }
  fake.epochs.push_back(epoch);
  fake.close = std::move(close);
  if (epoch > epoch_) {
    epoch_ = epoch;
    pending_.clear();
    tables_.clear();
    chosen_.clear();
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

bool FakeStages::IsCurrent(uint64_t epoch) { return epoch == epoch_; }

void FakeStages::AddEmbedding(const v1::EmbeddingExecute& execute) {
  absl::MutexLock lock(&mutex_);
  if (!IsCurrent(execute.epoch())) return;
  Pending& pending = pending_[execute.step_id()];
  pending.has_embedding = true;
  pending.embedding = execute;
  RunIfComplete(execute.step_id());
}

void FakeStages::AddShard(const v1::ShardExecute& execute) {
  absl::MutexLock lock(&mutex_);
  if (!IsCurrent(execute.epoch())) return;
  Pending& pending = pending_[execute.step_id()];
  ++pending.num_shards;
  pending.shard = execute;
  RunIfComplete(execute.step_id());
}

void FakeStages::AddSampler(const v1::SamplerExecute& execute,
                            std::function<void(v1::SamplerRunResponse)> answer) {
  absl::MutexLock lock(&mutex_);
  if (!IsCurrent(execute.epoch())) return;
  Pending& pending = pending_[execute.step_id()];
  pending.answer = std::move(answer);
  pending.sampler = execute;
  RunIfComplete(execute.step_id());
}

void FakeStages::RunIfComplete(uint64_t step_id) {
  const auto found = pending_.find(step_id);
  Pending& step = found->second;
  if (!step.has_embedding || step.num_shards < options_.num_stages || step.answer == nullptr) {
    return;
  }
  if (!FillIn(step.embedding)) return;
  const FakeStep written = Write(step);
  switch (judge_ == nullptr ? Verdict::kAnswer : judge_(written)) {
    case Verdict::kAnswer:
      Answer(step, written);
      break;
    case Verdict::kIgnore:
      break;
    case Verdict::kLose:
      fakes_.at(ShardName(0, 0)).close(absl::InternalError("the shard gave up"));
      break;
  }
  pending_.erase(found);
}

bool FakeStages::FillIn(v1::EmbeddingExecute& embedding) const {
  for (const v1::ChosenToken& token : embedding.chosen_tokens()) {
    const auto found = chosen_.find(token.step_id());
    if (found == chosen_.end()) return false;
    embedding.set_token_ids(token.index(), found->second.at(token.row()));
  }
  return true;
}

FakeStep FakeStages::Write(const Pending& step) {
  FakeStep written{.epoch = step.shard.epoch(), .step_id = step.shard.step_id(), .sequences = {}};
  for (const v1::BlockCopy& copy : step.shard.block_copies()) {
    for (int slot = 0; slot < options_.block_size; ++slot) {
      memory_.at(static_cast<size_t>(copy.destination()) * options_.block_size + slot) =
          memory_.at(static_cast<size_t>(copy.source()) * options_.block_size + slot);
    }
  }
  for (const uint64_t sequence : step.shard.ended_sequence_ids()) tables_.erase(sequence);
  int next_token = 0;
  for (const v1::Segment& segment : step.shard.segments()) {
    std::vector<int32_t>& table = tables_[segment.sequence_id()];
    SLUICE_CHECK(segment.first_block() <= std::ssize(table));
    table.resize(segment.first_block());
    table.insert(table.end(), segment.blocks().begin(), segment.blocks().end());
    const auto slot = [&](int position) -> int32_t& {
      return memory_.at(static_cast<size_t>(table.at(position / options_.block_size)) *
                            options_.block_size +
                        position % options_.block_size);
    };
    const int end = segment.first_position() + segment.num_positions();
    for (int position = segment.first_position(); position < end; ++position) {
      SLUICE_CHECK(step.embedding.positions(next_token) == position);
      slot(position) = step.embedding.token_ids(next_token++);
    }
    std::vector<int32_t>& tokens = written.sequences.emplace_back();
    for (int position = 0; position < end; ++position) tokens.push_back(slot(position));
  }
  SLUICE_CHECK(next_token == step.embedding.token_ids_size());
  return written;
}

void FakeStages::Answer(const Pending& step, const FakeStep& written) {
  SLUICE_CHECK(step.shard.output_rows_size() == step.sampler.rows_size());
  v1::SamplerRunResponse response;
  v1::SamplerExecuted& executed = *response.mutable_executed();
  executed.set_epoch(written.epoch);
  executed.set_step_id(written.step_id);
  int segment = 0;
  int first_row = 0;  // of the segment
  for (int i = 0; i < step.sampler.rows_size(); ++i) {
    while (step.shard.output_rows(i) >= first_row + step.shard.segments(segment).num_positions()) {
      first_row += step.shard.segments(segment++).num_positions();
    }
    const v1::SamplerRow& asked = step.sampler.rows(i);
    const int position =
        step.shard.segments(segment).first_position() + step.shard.output_rows(i) - first_row;
    SLUICE_CHECK(asked.position() == position + 1);
    SLUICE_CHECK(asked.sequence_id() == step.shard.segments(segment).sequence_id());
    const std::vector<int32_t>& tokens = written.sequences[segment];
    const std::vector<int32_t> before(tokens.begin(), tokens.begin() + position + 1);
    v1::SampledRow& row = *executed.add_rows();
    const std::string error = row_error_ == nullptr ? "" : row_error_(before);
    if (!error.empty()) {
      row.set_error_message(error);
      row.set_error_code(static_cast<int>(absl::StatusCode::kInternal));
    } else if (asked.has_score_token_id()) {
      row.set_token_id(asked.score_token_id());
      row.set_logprob(-static_cast<float>(position));
    } else {
      row.set_token_id(NextToken(before, asked.sample().seed(), asked.sequence_index()));
      row.set_logprob(-0.5f);
    }
  }
  for (const v1::SampledRow& row : executed.rows()) {
    chosen_[executed.step_id()].push_back(row.token_id());
  }
  step.answer(std::move(response));
}

}  // namespace sluice::testing
