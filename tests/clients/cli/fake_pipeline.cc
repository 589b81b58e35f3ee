#include "tests/clients/cli/fake_pipeline.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "clients/cli/cli.h"
#include "clients/cli/command_table.h"
#include "services/common/status.h"
#include "services/rpc/server.h"
#include "sluice/v1/generation.grpc.pb.h"

namespace sluice::testing {
namespace {

class FakeService final : public v1::GenerationService::Service {
 public:
  explicit FakeService(FakeAnswers answers) : answers_(std::move(answers)) {}

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    {
      const absl::MutexLock lock(&mutex_);
      requests_.push_back(*request);
    }
    return ToGrpc(answers_.generate(
        *request, [writer](const v1::GenerateResponse& event) { return writer->Write(event); }));
  }

  grpc::Status Score(grpc::ServerContext* context, const v1::ScoreRequest* request,
                     v1::ScoreResponse* response) override {
    absl::StatusOr<v1::ScoreResponse> score = answers_.score(*request);
    if (!score.ok()) return ToGrpc(score.status());
    *response = *std::move(score);
    return grpc::Status::OK;
  }

  grpc::Status Tokenize(grpc::ServerContext* context, const v1::TokenizeRequest* request,
                        v1::TokenizeResponse* response) override {
    absl::StatusOr<v1::TokenizeResponse> tokens = answers_.tokenize(*request);
    if (!tokens.ok()) return ToGrpc(tokens.status());
    *response = *std::move(tokens);
    return grpc::Status::OK;
  }

  grpc::Status Detokenize(grpc::ServerContext* context, const v1::DetokenizeRequest* request,
                          v1::DetokenizeResponse* response) override {
    absl::StatusOr<v1::DetokenizeResponse> text = answers_.detokenize(*request);
    if (!text.ok()) return ToGrpc(text.status());
    *response = *std::move(text);
    return grpc::Status::OK;
  }

  grpc::Status GetVocabulary(grpc::ServerContext* context, const v1::GetVocabularyRequest* request,
                             v1::GetVocabularyResponse* response) override {
    const auto token = answers_.vocabulary.lower_bound(request->first_token_id());
    if (token == answers_.vocabulary.end()) return grpc::Status::OK;
    v1::VocabularyEntry& entry = *response->add_entries();
    entry.set_token_id(token->first);
    entry.set_text(token->second);
    if (std::next(token) != answers_.vocabulary.end()) {
      response->set_next_token_id(std::next(token)->first);
    }
    return grpc::Status::OK;
  }

  grpc::Status GetModel(grpc::ServerContext* context, const v1::GetModelRequest* request,
                        v1::GetModelResponse* response) override {
    *response = answers_.model;
    return grpc::Status::OK;
  }

  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override {
    *response = answers_.status;
    ++num_status_calls_;
    return grpc::Status::OK;
  }

  int num_status_calls() const { return num_status_calls_; }

  std::vector<v1::GenerateRequest> requests() const {
    const absl::MutexLock lock(&mutex_);
    return requests_;
  }

 private:
  const FakeAnswers answers_;
  mutable absl::Mutex mutex_;
  std::vector<v1::GenerateRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> num_status_calls_ = 0;
};

class BorrowedPipeline final : public InProcessPipeline {
 public:
  explicit BorrowedPipeline(Server& server) : server_(server) {}
  std::shared_ptr<grpc::Channel> channel() override {
    return server_.grpc_server()->InProcessChannel(grpc::ChannelArguments());
  }

 private:
  Server& server_;
};

}  // namespace

struct FakePipeline::Impl {
  FakeService service;
  std::unique_ptr<Server> server;
};

FakeAnswers DefaultAnswers() {
  FakeAnswers answers;
  answers.model.set_name("fake");
  answers.model.set_weights("f32");
  answers.model.set_vocabulary_size(100);
  answers.model.set_has_tokenizer(true);
  answers.generate = [](const v1::GenerateRequest&, const WriteEvent&) {
    return absl::UnimplementedError("not in this test");
  };
  answers.score = [](const v1::ScoreRequest&) {
    return absl::UnimplementedError("not in this test");
  };
  answers.tokenize = [](const v1::TokenizeRequest&) {
    return absl::UnimplementedError("not in this test");
  };
  answers.detokenize = [](const v1::DetokenizeRequest&) {
    return absl::UnimplementedError("not in this test");
  };
  return answers;
}

FakePipeline::FakePipeline(FakeAnswers answers, const std::string& address)
    : impl_(new Impl{.service = FakeService(std::move(answers)), .server = nullptr}) {
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start({.address = address, .services = {&impl_->service}});
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", std::string(server.status().message()).c_str());
    std::abort();
  }
  impl_->server = *std::move(server);
}

FakePipeline::~FakePipeline() = default;

const std::string& FakePipeline::endpoint() const { return impl_->server->address(); }

void FakePipeline::SetServing(bool serving) { impl_->server->SetServing(serving); }

void FakePipeline::ServeHealthOn(const std::string& address) {
  const absl::Status status = impl_->server->ServeHealthOn({address});
  if (!status.ok()) std::abort();
}

std::unique_ptr<InProcessPipeline> FakePipeline::InProcess() {
  return std::make_unique<BorrowedPipeline>(*impl_->server);
}

int FakePipeline::num_status_calls() const { return impl_->service.num_status_calls(); }

std::vector<v1::GenerateRequest> FakePipeline::requests() const {
  return impl_->service.requests();
}

v1::GenerateResponse TextEvent(int sequence, const std::string& text,
                               const std::vector<int32_t>& token_ids) {
  v1::GenerateResponse event;
  event.mutable_chunk()->set_sequence(sequence);
  event.mutable_chunk()->set_text(text);
  event.mutable_chunk()->mutable_token_ids()->Assign(token_ids.begin(), token_ids.end());
  return event;
}

v1::GenerateResponse FinishedEvent(int num_sequences, int num_tokens) {
  v1::GenerateResponse event;
  v1::Finished* finished = event.mutable_finished();
  for (int i = 0; i < num_sequences; ++i) {
    v1::FinishedSequence* sequence = finished->add_sequences();
    sequence->set_sequence(i);
    sequence->set_reason(v1::FINISH_REASON_LENGTH);
  }
  finished->mutable_usage()->set_num_prompt_tokens(3);
  finished->mutable_usage()->set_num_generated_tokens(num_tokens);
  finished->set_seed(7);
  finished->set_request_id("r1");
  return event;
}

int FakeEnvironment::Run(const std::vector<std::string>& arguments) {
  return RunCli(arguments, AllCommands(), environment);
}

}  // namespace sluice::testing
