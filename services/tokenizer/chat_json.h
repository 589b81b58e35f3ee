// JSON that a request has of a conversation, as the values of a chat template.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace sluice {

// The value, with the members of objects in their order; nullopt where the text is no JSON. A
// number that is no 64-bit integer keeps its spelling (jinja/spelled_number.h), so that a template
// writes a model's arguments as the model has written them. Takes time in proportion to the text.
std::optional<nlohmann::ordered_json> ParseChatJson(const std::string& text);

// Adds a member behind the others. REQUIRES: `object` has none of this name, which is not looked
// for.
void AppendMember(nlohmann::ordered_json& object, const std::string& name,
                  nlohmann::ordered_json value);

}  // namespace sluice
