// POST /v1/responses: from the request to the last byte of its answer. Belongs to the exchange's
// loop; kept alive by what it waits for.
#pragma once

#include <memory>
#include <string>

#include "services/gateway/api/api_call.h"
#include "services/gateway/backend/generation_group.h"
#include "services/gateway/openai/response_request.h"

namespace sluice::gateway::openai {

class ResponseCall : public std::enable_shared_from_this<ResponseCall> {
 public:
  static void Start(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

 private:
  ResponseCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

  void Begin();
  void CheckModel(const v1::GetModelResponse& model);
  void OnText(const std::string& text);
  void OnFinished(const v1::Finished& finished);
  void Fail(const absl::Status& status);

  void BeginResponse();
  // Events count up from 0.
  void SendEvent(const char* type, nlohmann::json fields);
  nlohmann::json Response(const char* status) const;
  nlohmann::json Item(const char* status) const;
  nlohmann::json TextPart(const std::string& text) const;

  const ApiContext context_;
  ApiCall call_;
  const std::string id_;
  const std::string item_id_;
  const int64_t created_;
  ResponseRequest request_;
  std::string model_;
  std::string text_;
  int64_t num_events_ = 0;
};

}  // namespace sluice::gateway::openai
