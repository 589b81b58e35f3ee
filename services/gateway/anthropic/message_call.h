// POST /v1/messages: from the request to the last byte of its answer. Belongs to the exchange's
// loop; kept alive by what it waits for.
#pragma once

#include <memory>
#include <string>

#include "services/gateway/anthropic/message_request.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/backend/generation_group.h"

namespace sluice::gateway::anthropic {

class MessageCall : public std::enable_shared_from_this<MessageCall> {
 public:
  static void Start(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);
  // POST /v1/messages/count_tokens.
  static void StartCount(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

 private:
  MessageCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange, bool counts);

  void Begin();
  void CheckModel(const v1::GetModelResponse& model);
  void OnText(const std::string& text);
  void OnFinished(const v1::Finished& finished);
  void Fail(const absl::Status& status);

  void BeginMessage();
  void SendEvent(nlohmann::json data);
  nlohmann::json Message() const;

  const ApiContext context_;
  ApiCall call_;
  const bool counts_;
  const std::string id_;
  MessageRequest request_;
  std::string model_;
  std::string text_;  // where it is not streamed
};

}  // namespace sluice::gateway::anthropic
