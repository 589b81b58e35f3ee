// POST /v1/chat/completions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "services/gateway/openai/chat_request.h"
#include "services/gateway/openai/choice_call.h"
#include "services/gateway/tool_calls/output_splitter.h"

namespace sluice::gateway::openai {

class ChatCall final : public ChoiceCall {
 public:
  ChatCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

 private:
  struct Choice {
    bool begun = false;  // its first chunk, which has the role, was sent
    std::unique_ptr<OutputSplitter> splitter;
    std::string content;
    std::string reasoning;
    int num_calls = 0;                                    // that have begun
    nlohmann::json tool_calls = nlohmann::json::array();  // where the answer is not streamed
    nlohmann::json logprobs;                              // null where not asked for
    nlohmann::json token_ids;  // that no answer has had yet; null where not asked for
  };

  absl::StatusOr<Needs> Read(const nlohmann::json& body) override;
  void Prepare() override;
  void OnChunk(int prompt, const v1::Chunk& chunk) override;
  void OnFinished(const std::vector<v1::Finished>& finished) override;
  void Fail(const absl::Status& status) override;
  const GenerationParameters& parameters() const override { return request_.parameters; }
  int64_t num_reasoning_tokens() const override;

  // Of a chunk's tokens, those that are part of the text or of a special token in it: not the one
  // that ended the sequence.
  int NumShown(const v1::Chunk& chunk) const;

  // Asks for the prompt's token ids, which the answer shows, then goes on to the next step.
  void TokenizeChat();
  // Makes the prediction the tokens that are expected, then begins.
  void TokenizePrediction();
  // Makes the Generate call, after the steps that come before it.
  void Begin();
  void Take(int index, const OutputPiece& piece, nlohmann::json logprobs);
  nlohmann::json NewToolCalls(Choice& choice, const OutputPiece& piece);
  nlohmann::json Message(Choice& choice) const;
  void BeginChoice(int index);
  void SendDelta(int index, nlohmann::json delta, nlohmann::json logprobs);

  ChatRequest request_;
  std::vector<Choice> choices_;
  nlohmann::json prompt_logprobs_;   // null where not asked for
  nlohmann::json prompt_token_ids_;  // likewise, and once a stream has had them
};

}  // namespace sluice::gateway::openai
