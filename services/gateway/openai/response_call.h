// POST /v1/responses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "services/gateway/openai/openai_call.h"
#include "services/gateway/openai/response_items.h"
#include "services/gateway/openai/response_request.h"
#include "services/gateway/tool_calls/output_splitter.h"

namespace sluice::gateway::openai {

class ResponseCall final : public OpenAiCall {
 public:
  ResponseCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

 private:
  absl::StatusOr<Needs> Read(const nlohmann::json& body) override;
  void Prepare() override;
  void OnChunk(int prompt, const v1::Chunk& chunk) override;
  void OnFinished(const std::vector<v1::Finished>& finished) override;
  void Fail(const absl::Status& status) override;

  void BeginResponse();
  // Events count up from 0.
  void SendEvent(const char* type, nlohmann::json fields);
  nlohmann::json Response(const char* status) const;
  void Take(const OutputPiece& piece);

  ResponseRequest request_;
  std::unique_ptr<OutputSplitter> splitter_;
  std::unique_ptr<ResponseItems> items_;
  int num_calls_ = 0;
  int64_t num_events_ = 0;
};

}  // namespace sluice::gateway::openai
