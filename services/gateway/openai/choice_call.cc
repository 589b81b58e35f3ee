#include "services/gateway/openai/choice_call.h"

#include <utility>

#include "services/gateway/json/json_text.h"
#include "services/gateway/openai/usage.h"

namespace sluice::gateway::openai {

using nlohmann::json;

ChoiceCall::ChoiceCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange,
                       const Names& names)
    : OpenAiCall(context, std::move(exchange), names.id_prefix), names_(names) {}

json ChoiceCall::Envelope() const {
  json body = {{"id", id()},
               {"object", streams() ? names_.chunk : names_.object},
               {"created", created()},
               {"model", model().name()}};
  if (!parameters().service_tier.empty()) body["service_tier"] = parameters().service_tier;
  return body;
}

void ChoiceCall::SendChoice(const json& choice, const json& further) {
  if (!further.empty()) {
    json envelope = Envelope();
    envelope.update(further);
    return call().SendEvent(ChoiceEvent(envelope, parameters().stream.include_usage).Of(choice));
  }
  if (!choice_event_.has_value()) {
    choice_event_.emplace(Envelope(), parameters().stream.include_usage);
  }
  call().SendEvent(choice_event_->Of(choice));
}

void ChoiceCall::End(json choices, const std::vector<v1::Finished>& finished, const json& further) {
  json body = Envelope();
  body["choices"] = std::move(choices);
  body["usage"] = Usage(finished, num_reasoning_tokens());
  body.update(further);
  if (!streams()) return call().Respond(200, body);
  if (parameters().stream.include_usage) call().SendEvent(ToJson(body));
  call().SendEvent("[DONE]");
  call().EndEvents();
}

}  // namespace sluice::gateway::openai
