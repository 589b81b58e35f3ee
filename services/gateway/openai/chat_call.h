// POST /v1/chat/completions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "services/gateway/api/generation_call.h"
#include "services/gateway/openai/chat_request.h"

namespace sluice::gateway::openai {

class ChatCall final : public GenerationCall {
 public:
  ChatCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

 private:
  struct Choice {
    bool begun = false;  // its first chunk, which has the role, was sent
    std::string content;
    nlohmann::json logprobs;  // null where not asked for
  };

  absl::StatusOr<Needs> Read(const nlohmann::json& body) override;
  absl::Status UnknownModel(const std::string& name) const override;
  void Prepare() override;
  void OnChunk(int prompt, const v1::Chunk& chunk) override;
  void OnFinished(const std::vector<v1::Finished>& finished) override;
  void Fail(const absl::Status& status) override;

  void BeginChoice(int index);
  void SendDelta(int index, nlohmann::json delta, nlohmann::json logprobs);
  void SendChoice(nlohmann::json choice);
  nlohmann::json Envelope(const char* object) const;

  const std::string id_;
  const int64_t created_;
  ChatRequest request_;
  std::vector<Choice> choices_;
};

}  // namespace sluice::gateway::openai
