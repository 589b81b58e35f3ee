#include "tests/testing/fake_orchestrator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "kernels/check.h"
#include "sluice/v1/generation.grpc.pb.h"
#include "sluice/v1/generation_session.grpc.pb.h"

namespace sluice::testing {
namespace {

constexpr int kVocabularySize = 8;

v1::PositionLogprobs Logprobs(int token) {
  v1::PositionLogprobs logprobs;
  logprobs.set_logprob(-0.5F);
  v1::TokenLogprob& top = *logprobs.add_top();
  top.set_token_id(token);
  top.set_logprob(-0.5F);
  return logprobs;
}

v1::GenerateResponse ChunkOf(const v1::GenerateRequest& request, int sequence) {
  v1::GenerateResponse response;
  v1::Chunk& chunk = *response.mutable_chunk();
  chunk.set_sequence(sequence);
  chunk.set_text(R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call> text)");
  chunk.add_token_ids(1);
  if (request.has_logprobs()) *chunk.add_logprobs() = Logprobs(1);
  return response;
}

v1::GenerateResponse FinishedOf(int num_sequences) {
  v1::GenerateResponse response;
  for (int i = 0; i < num_sequences; ++i) {
    v1::FinishedSequence& sequence = *response.mutable_finished()->add_sequences();
    sequence.set_sequence(i);
    sequence.set_reason(v1::FINISH_REASON_LENGTH);
    sequence.set_num_tokens(1);
  }
  response.mutable_finished()->mutable_usage()->set_num_prompt_tokens(3);
  return response;
}

int NumSequences(const v1::GenerateRequest& request) {
  if (request.has_beams()) return std::clamp(request.beams().num_return(), 1, 16);
  return std::clamp(request.n(), 1, 16);
}

}  // namespace

class FakeOrchestrator::Calls final : public v1::GenerationService::Service {
 public:
  using Context = grpc::ServerContext;
  using Status = grpc::Status;

  Calls(std::atomic<int>* num_refused, std::atomic<int>* num_models)
      : num_refused_(*num_refused), num_models_(*num_models) {}

  Status Check(absl::string_view authorization) {
    if (!absl::EndsWith(authorization, "refused")) return Status::OK;
    ++num_refused_;
    return {grpc::StatusCode::UNAUTHENTICATED, "the token is not known"};
  }

  Status Generate(Context* context, const v1::GenerateRequest* request,
                  grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    if (Status status = Check(*context); !status.ok()) return status;
    for (int i = 0; i < NumSequences(*request); ++i) writer->Write(ChunkOf(*request, i));
    writer->Write(FinishedOf(NumSequences(*request)));
    return Status::OK;
  }

  Status Score(Context* context, const v1::ScoreRequest* request,
               v1::ScoreResponse* response) override {
    for (const v1::ScoreInput& input : request->inputs()) {
      (void)input;
      response->add_scores()->add_token_ids(1);
    }
    if (!request->inputs().empty()) return Check(*context);
    response->add_token_ids(1);
    response->add_token_ids(2);
    *response->add_logprobs() = Logprobs(2);
    return Check(*context);
  }

  Status Tokenize(Context* context, const v1::TokenizeRequest* request,
                  v1::TokenizeResponse* response) override {
    const size_t count = std::min<size_t>(request->text().size(), 16);
    for (size_t i = 0; i < count; ++i) response->add_token_ids(static_cast<int>(i % 8));
    return Check(*context);
  }

  Status Detokenize(Context* context, const v1::DetokenizeRequest*,
                    v1::DetokenizeResponse* response) override {
    response->set_text("text");
    return Check(*context);
  }

  Status GetVocabulary(Context* context, const v1::GetVocabularyRequest*,
                       v1::GetVocabularyResponse* response) override {
    for (int id = 0; id < kVocabularySize; ++id) {
      v1::VocabularyEntry& entry = *response->add_entries();
      entry.set_token_id(id);
      entry.set_text(std::string(1, static_cast<char>('a' + id)));
    }
    return Check(*context);
  }

  Status ApplyChatTemplate(Context* context, const v1::ApplyChatTemplateRequest*,
                           v1::ApplyChatTemplateResponse* response) override {
    response->set_text("<tool_call>{\"name\": \"probe\"}</tool_call>");
    response->add_token_ids(1);
    return Check(*context);
  }

  Status GetModel(Context* context, const v1::GetModelRequest*,
                  v1::GetModelResponse* response) override {
    ++num_models_;
    response->set_name("model");
    response->set_architecture("llama");
    response->set_vocabulary_size(kVocabularySize);
    response->set_max_positions(512);
    response->set_has_tokenizer(true);
    response->set_has_chat_template(true);
    return Check(*context);
  }

  Status GetStatus(Context* context, const v1::GetStatusRequest*,
                   v1::GetStatusResponse* response) override {
    response->set_serving(true);
    return Check(*context);
  }

 private:
  Status Check(const Context& context) {
    const auto header = context.client_metadata().find("authorization");
    if (header == context.client_metadata().end()) return Status::OK;
    return Check(absl::string_view(header->second.data(), header->second.size()));
  }

  std::atomic<int>& num_refused_;
  std::atomic<int>& num_models_;
};

// Answers each call of a session before it reads the next message.
class FakeOrchestrator::Sessions final : public v1::GenerationSessionService::Service {
 public:
  explicit Sessions(Calls& calls) : calls_(calls) {}

  grpc::Status OpenSession(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::OpenSessionResponse, v1::OpenSessionRequest>* stream) override {
    v1::OpenSessionRequest message;
    while (stream->Read(&message)) {
      for (const v1::SessionCommand& command : message.commands()) {
        if (command.has_start()) stream->Write(AnswerTo(command));
      }
    }
    return grpc::Status::OK;
  }

 private:
  v1::OpenSessionResponse AnswerTo(const v1::SessionCommand& command) {
    v1::OpenSessionResponse answer;
    v1::GenerateRequest request;
    grpc::Status status = calls_.Check(command.start().authorization());
    if (status.ok() && !request.ParseFromString(command.start().request())) {
      status = {grpc::StatusCode::INVALID_ARGUMENT, "the request is no GenerateRequest"};
    }
    const auto add = [&](v1::GenerateResponse response) {
      v1::SessionEvent& event = *answer.add_events();
      event.set_call(command.call());
      *event.mutable_response() = std::move(response);
    };
    if (status.ok()) {
      for (int i = 0; i < NumSequences(request); ++i) add(ChunkOf(request, i));
      add(FinishedOf(NumSequences(request)));
    }
    v1::SessionEvent& end = *answer.add_events();
    end.set_call(command.call());
    end.mutable_end()->set_code(status.error_code());
    end.mutable_end()->set_message(status.error_message());
    return answer;
  }

  Calls& calls_;
};

FakeOrchestrator::FakeOrchestrator()
    : calls_(std::make_unique<Calls>(&num_refused_, &num_models_)),
      sessions_(std::make_unique<Sessions>(*calls_)) {
  auto server = Server::Start(
      {.address = "inproc:orchestrator", .services = {calls_.get(), sessions_.get()}});
  SLUICE_CHECK(server.ok());
  server_ = *std::move(server);
}

FakeOrchestrator::~FakeOrchestrator() = default;

std::shared_ptr<grpc::Channel> FakeOrchestrator::Channel() {
  return server_->grpc_server()->InProcessChannel(grpc::ChannelArguments());
}

}  // namespace sluice::testing
