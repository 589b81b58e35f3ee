// POST /v1/messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "services/gateway/anthropic/message_request.h"
#include "services/gateway/api/generation_call.h"
#include "services/gateway/tool_calls/output_splitter.h"

namespace sluice::gateway::anthropic {

class MessageCall final : public GenerationCall {
 public:
  MessageCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

 private:
  absl::StatusOr<Needs> Read(const nlohmann::json& body) override;
  absl::Status UnknownModel(const std::string& name) const override;
  void Prepare() override;
  void OnStarted(int prompt, const v1::Started& started) override;
  void OnChunk(int prompt, const v1::Chunk& chunk) override;
  void OnFinished(const std::vector<v1::Finished>& finished) override;
  void Fail(const absl::Status& status) override;

  void BeginMessage();
  void Take(const OutputPiece& piece);
  // Goes on with the block that is open where it is of this type, else with a new one; `member` of
  // it grows by `text`.
  void Append(const char* type, const char* member, const std::string& text);
  void AddToolUse(const ToolCallPiece& piece);
  void BeginBlock(nlohmann::json block);
  void EndBlock();
  void SendEvent(nlohmann::json data);
  nlohmann::json Message() const;

  const std::string id_;
  MessageRequest request_;
  std::unique_ptr<OutputSplitter> splitter_;
  nlohmann::json blocks_ = nlohmann::json::array();
  std::vector<std::string> block_texts_;  // of those that ended, as JSON, where nothing is streamed
  bool has_open_block_ = false;           // the last
  std::string arguments_;                 // of the call in it, as far as they came
  int num_calls_ = 0;                     // that have begun
  int32_t num_prompt_tokens_ = 0;
};

}  // namespace sluice::gateway::anthropic
