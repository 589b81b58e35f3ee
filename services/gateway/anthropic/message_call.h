// POST /v1/messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "services/gateway/anthropic/message_request.h"
#include "services/gateway/api/generation_call.h"

namespace sluice::gateway::anthropic {

class MessageCall final : public GenerationCall {
 public:
  MessageCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

 private:
  absl::StatusOr<Needs> Read(const nlohmann::json& body) override;
  absl::Status UnknownModel(const std::string& name) const override;
  void Prepare() override;
  void OnChunk(int prompt, const v1::Chunk& chunk) override;
  void OnFinished(const std::vector<v1::Finished>& finished) override;
  void Fail(const absl::Status& status) override;

  void BeginMessage();
  void SendEvent(nlohmann::json data);
  nlohmann::json Message() const;

  const std::string id_;
  MessageRequest request_;
  std::string text_;  // where it is not streamed
};

}  // namespace sluice::gateway::anthropic
