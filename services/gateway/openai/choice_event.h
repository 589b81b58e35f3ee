// The events of a streamed completion or chat: one choice each, in an envelope that is the same for
// all, which is therefore written once.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::gateway::openai {

class ChoiceEvent {
 public:
  // `envelope` is an object with at least one member; `has_usage`: "usage": null is added.
  ChoiceEvent(const nlohmann::json& envelope, bool has_usage);

  std::string Of(const nlohmann::json& choice) const;

 private:
  std::string head_;
  std::string tail_;
};

}  // namespace sluice::gateway::openai
