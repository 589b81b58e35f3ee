#include "services/gateway/openai/prompts.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

bool IsTokenId(const json& value) {
  return value.is_number_integer() && value >= std::numeric_limits<int32_t>::min() &&
         value <= std::numeric_limits<int32_t>::max();
}

std::optional<Prompt> OnePrompt(const json& value) {
  if (value.is_string()) return Prompt(value.get<std::string>());
  if (!value.is_array() || value.empty()) return std::nullopt;
  std::vector<int32_t> ids;
  for (const json& id : value) {
    if (!IsTokenId(id)) return std::nullopt;
    ids.push_back(id.get<int32_t>());
  }
  return Prompt(std::move(ids));
}

}  // namespace

std::vector<Prompt> ReadPrompts(ObjectReader& reader, const char* name, size_t most) {
  const json* value = reader.Any(name);
  if (value == nullptr) {
    reader.Fail(name, "missing_required_parameter",
                absl::StrCat("Missing required parameter: '", name, "'."));
    return {};
  }
  if (std::optional<Prompt> one = OnePrompt(*value)) return {*std::move(one)};
  std::vector<Prompt> prompts;
  const bool several = value->is_array() && !value->empty() && value->size() <= most;
  for (const json& item : several ? *value : json::array()) {
    std::optional<Prompt> prompt = OnePrompt(item);
    if (!prompt.has_value()) break;
    prompts.push_back(*std::move(prompt));
  }
  if (several && prompts.size() == value->size()) return prompts;
  reader.Fail(
      name, "invalid_type",
      absl::StrCat("'", name, "' must be a string, an array of token ids, or an array of up to ",
                   most, " of either."));
  return {};
}

}  // namespace sluice::gateway::openai
