// A call that answers with choices, whole or streamed: a completion or a chat. Belongs to the
// exchange's loop.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "services/gateway/openai/choice_event.h"
#include "services/gateway/openai/generation_parameters.h"
#include "services/gateway/openai/openai_call.h"

namespace sluice::gateway::openai {

class ChoiceCall : public OpenAiCall {
 protected:
  // How the API names what it answers with.
  struct Names {
    absl::string_view id_prefix;
    const char* object;  // a whole answer
    const char* chunk;   // a part of a streamed one
  };

  ChoiceCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange,
             const Names& names);

  // What was asked for, once it is read.
  virtual const GenerationParameters& parameters() const = 0;
  // Of what was generated, so far.
  virtual int64_t num_reasoning_tokens() const { return 0; }

  bool streams() const { return parameters().stream.stream; }
  // One choice, in an event of its own with the members of `further`. REQUIRES: streams().
  void SendChoice(const nlohmann::json& choice,
                  const nlohmann::json& further = nlohmann::json::object());
  // The answer with all `choices` and the members of `further`; where it is streamed, and the
  // choices were sent, its end.
  void End(nlohmann::json choices, const std::vector<v1::Finished>& finished,
           const nlohmann::json& further = nlohmann::json::object());

 private:
  // What every answer and event has.
  nlohmann::json Envelope() const;

  const Names names_;
  std::optional<ChoiceEvent> choice_event_;  // once the first was sent
};

}  // namespace sluice::gateway::openai
