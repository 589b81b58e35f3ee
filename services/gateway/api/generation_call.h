// A call that generates, of whichever API: its model is looked up, its body read, what it needs
// besides is fetched, and what is generated goes to the API's class, which answers. Belongs to the
// exchange's loop; kept alive by what it waits for.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/api/output_styles.h"
#include "services/gateway/backend/generation_group.h"
#include "services/gateway/tool_calls/output_splitter.h"
#include "services/gateway/tool_calls/tool_choice.h"

namespace sluice::gateway {

class GenerationCall : public std::enable_shared_from_this<GenerationCall> {
 public:
  virtual ~GenerationCall() = default;

  void Start();

 protected:
  // What is looked up before anything is generated.
  struct Needs {
    std::string model;                   // as asked for; empty where it is left to the server
    bool token_texts = false;            // log-probabilities show tokens as text
    std::vector<std::string> bad_words;  // become bad_words_ids of every request
    // Calls of tools and thoughts are separated from the text: the chat that they are an answer to,
    // which outlives Prepare().
    const v1::Chat* chat = nullptr;
    const ToolChoice* tools = nullptr;  // that the chat offers; outlives Prepare() too
  };

  GenerationCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

  // The steps, in their order. Fail() may come instead of any, and is the last. Read() may be called
  // on another thread than the loop's, which waits: it uses nothing but the call's own state.
  virtual absl::StatusOr<Needs> Read(const nlohmann::json& body) = 0;
  virtual absl::Status UnknownModel(const std::string& name) const = 0;
  // Everything that was needed is there. Ends in Generate(), at once or later.
  virtual void Prepare() = 0;
  // Before anything else of a prompt.
  virtual void OnStarted(int /*prompt*/, const v1::Started& /*started*/) {}
  virtual void OnChunk(int prompt, const v1::Chunk& chunk) = 0;
  virtual void OnFinished(const std::vector<v1::Finished>& finished) = 0;
  virtual void Fail(const absl::Status& status) = 0;

  // Requests without an id get the call's, and what keeps the choice of tools.
  void Generate(std::vector<v1::GenerateRequest> requests);

  // For calls of the backend: hands what it answers to `next`, or its status to Fail().
  template <class Value, class Next>
  std::function<void(absl::StatusOr<Value>)> Then(Next next) {
    return [self = shared_from_this(), next = std::move(next)](absl::StatusOr<Value> value) {
      if (!value.ok()) return self->Fail(value.status());
      next(*std::move(value));
    };
  }

  Backend& backend() const { return context_.backend; }
  ApiCall& call() { return call_; }
  const ApiCall& call() const { return call_; }
  const v1::GetModelResponse& model() const { return model_; }
  // Null where they were not asked for.
  const std::shared_ptr<const TokenTexts>& token_texts() const { return token_texts_; }
  // For one sequence of the answer to a chat. Calls are found where tools were offered.
  OutputSplitter NewSplitter() const;

 private:
  void ReadBody();
  void FindAdapter();
  void FetchTokenTexts();
  void FindOutputStyle();
  void ConstrainCalls();
  void TokenizeBadWord(size_t index);
  // How the answer is written where no call is required.
  OutputStyle StyleOfAnswer() const;
  bool has_tools() const { return needs_.chat != nullptr && !needs_.chat->tools_json().empty(); }
  bool must_call() const { return needs_.tools != nullptr && needs_.tools->required; }

  const ApiContext context_;
  ApiCall call_;
  Needs needs_;
  v1::GetModelResponse model_;
  std::string adapter_;  // that `model` names; empty: none
  std::shared_ptr<const TokenTexts> token_texts_;
  OutputStyle output_style_;
  std::optional<v1::Constraint> calls_constraint_;
  std::vector<std::vector<int32_t>> bad_words_ids_;
};

}  // namespace sluice::gateway
