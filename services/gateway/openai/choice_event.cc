#include "services/gateway/openai/choice_event.h"

#include "absl/strings/str_cat.h"
#include "services/gateway/json/json_text.h"

namespace sluice::gateway::openai {

ChoiceEvent::ChoiceEvent(const nlohmann::json& envelope, bool has_usage)
    : head_(ToJson(envelope)), tail_(has_usage ? "],\"usage\":null}" : "]}") {
  head_.pop_back();  // the closing brace
  head_ += ",\"choices\":[";
}

std::string ChoiceEvent::Of(const nlohmann::json& choice) const {
  return absl::StrCat(head_, ToJson(choice), tail_);
}

}  // namespace sluice::gateway::openai
