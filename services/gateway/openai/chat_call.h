// POST /v1/chat/completions: from the request to the last byte of its answer. Belongs to the
// exchange's loop; kept alive by what it waits for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "services/gateway/api/api_call.h"
#include "services/gateway/backend/generation_group.h"
#include "services/gateway/openai/chat_request.h"

namespace sluice::gateway::openai {

class ChatCall : public std::enable_shared_from_this<ChatCall> {
 public:
  static void Start(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

 private:
  struct Choice {
    bool begun = false;  // its first chunk, which has the role, was sent
    std::string content;
    nlohmann::json logprobs;  // null where not asked for
  };

  ChatCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

  // The steps, each of which goes on to the next.
  void Begin();
  void CheckModel(const v1::GetModelResponse& model);
  void Generate();

  void OnChunk(const v1::Chunk& chunk);
  void OnFinished(const v1::Finished& finished);
  void Fail(const absl::Status& status);

  void BeginChoice(int index);
  void SendDelta(int index, nlohmann::json delta, nlohmann::json logprobs);
  void SendChoice(nlohmann::json choice);
  nlohmann::json Envelope(const char* object) const;

  const ApiContext context_;
  ApiCall call_;
  const std::string id_;
  const int64_t created_;
  ChatRequest request_;
  std::string model_;
  std::shared_ptr<const TokenTexts> texts_;  // where log-probabilities were asked for
  std::vector<Choice> choices_;
};

}  // namespace sluice::gateway::openai
