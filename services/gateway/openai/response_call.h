// POST /v1/responses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "services/gateway/api/generation_call.h"
#include "services/gateway/openai/response_request.h"

namespace sluice::gateway::openai {

class ResponseCall final : public GenerationCall {
 public:
  ResponseCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

 private:
  absl::StatusOr<Needs> Read(const nlohmann::json& body) override;
  absl::Status UnknownModel(const std::string& name) const override;
  void Prepare() override;
  void OnChunk(int prompt, const v1::Chunk& chunk) override;
  void OnFinished(const std::vector<v1::Finished>& finished) override;
  void Fail(const absl::Status& status) override;

  void BeginResponse();
  // Events count up from 0.
  void SendEvent(const char* type, nlohmann::json fields);
  nlohmann::json Response(const char* status) const;
  nlohmann::json Item(const char* status) const;
  nlohmann::json TextPart(const std::string& text) const;

  const std::string id_;
  const std::string item_id_;
  const int64_t created_;
  ResponseRequest request_;
  std::string text_;
  int64_t num_events_ = 0;
};

}  // namespace sluice::gateway::openai
