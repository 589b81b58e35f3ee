#include "services/model/sampling_defaults.h"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <limits>
#include <optional>
#include <type_traits>
#include <variant>

#include "absl/strings/string_view.h"
#include "services/model/config_texts.h"
#include "services/model/gguf_model.h"
#include "services/model/json_fields.h"

namespace sluice {
namespace {

void MapNumber(JsonFields& fields, const SamplingParameter& parameter, float& value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const double max = std::min(parameter.range.max, kMost);
  const auto number = parameter.range.above_min
                          ? fields.NumberAbove(parameter.model_key, parameter.range.min, max)
                          : fields.NumberAtLeast(parameter.model_key, parameter.range.min, max);
  if (number.has_value()) value = static_cast<float>(*number);
}

void MapNumber(JsonFields& fields, const SamplingParameter& parameter, int32_t& value) {
  // vLLM's word for no limit, which model files have taken over.
  const nlohmann::json* given = fields.Get(parameter.model_key);
  if (absl::string_view(parameter.name) == "top_k" && given != nullptr && *given == -1) return;
  const auto min = static_cast<int>(parameter.range.min);
  const auto max = static_cast<int>(std::min<double>(parameter.range.max, INT_MAX));
  value = fields.OptionalInt(parameter.model_key, min, max).value_or(value);
}

}  // namespace

absl::StatusOr<SamplingOptions> LoadSamplingDefaults(const std::string& model) {
  if (IsGgufPath(model)) {
    const absl::StatusOr<ConfigTexts> texts = ReadConfigTexts(model);
    if (!texts.ok()) return texts.status();
    return ParseSamplingDefaults(texts->generation, texts->generation_source);
  }
  const std::string path = (std::filesystem::path(model) / "generation_config.json").string();
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (absl::IsNotFound(text.status())) return SamplingOptions();
  if (!text.ok()) return text.status();
  return ParseSamplingDefaults(*text, path);
}

absl::StatusOr<SamplingOptions> ParseSamplingDefaults(const std::string& text,
                                                      const std::string& source) {
  SamplingOptions options;
  if (text.empty()) return options;
  const auto json = ParseJson(text, source);
  if (!json.ok()) return json.status();
  JsonFields fields(source, *json);
  for (const SamplingParameter& parameter : kSamplingParameters) {
    if (*parameter.model_key == '\0') continue;
    const auto map = [&](auto member) {
      using Value = std::decay_t<decltype(options.*member)>;
      if constexpr (std::is_same_v<Value, float> || std::is_same_v<Value, int32_t>) {
        MapNumber(fields, parameter, options.*member);
      }
    };
    std::visit(map, parameter.member);
  }
  if (fields.Bool("do_sample") == false) options.temperature = 0;
  if (!fields.status().ok()) return fields.status();
  return options;
}

}  // namespace sluice
