#include "services/model/model_config.h"

#include <algorithm>
#include <climits>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/model/config_texts.h"
#include "services/model/gguf_model.h"
#include "services/model/json_fields.h"
#include "services/model/model_families.h"
#include "services/model/published_model.h"
#include "services/model/quantization_fields.h"
#include "services/model/rope_fields.h"

namespace sluice {
namespace {

// The text model's own configuration in a file that describes several models (text, images, ...),
// with what such files say outside it for all of them; nullopt where there is only one model.
std::optional<nlohmann::json> TextConfig(const nlohmann::json& all) {
  const auto inner = all.find("text_config");
  if (inner == all.end() || !inner->is_object()) return std::nullopt;
  nlohmann::json text = *inner;
  const auto take = [&](const char* name, const nlohmann::json& value) {
    if (!text.contains(name) || text[name].is_null()) text[name] = value;
  };
  for (const char* name :
       {"quantization_config", "bos_token_id", "eos_token_id", "tie_word_embeddings"}) {
    if (all.contains(name)) take(name, all[name]);
  }
  const auto model_type = all.find("model_type");
  if (model_type != all.end() && model_type->is_string()) {
    take("model_type", model_type->get<std::string>() + "_text");
  }
  return text;
}

// Fills in what files of the family leave out.
void AddDefaults(const ModelFamily& family, nlohmann::json& config) {
  if (family.defaults == nullptr) return;
  const nlohmann::json defaults = nlohmann::json::parse(family.defaults);
  for (const auto& [name, value] : defaults.items()) {
    if (!config.contains(name)) config[name] = value;
  }
}

// Python writes numbers beyond all limits as Infinity, which is no JSON: such a limit is none, null.
std::string WithoutInfinities(const std::string& text) {
  constexpr absl::string_view kInfinity = "Infinity";
  std::string result;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!in_string && absl::string_view(text).substr(i, kInfinity.size()) == kInfinity &&
        (i == 0 || text[i - 1] != '-')) {
      result += "null";
      i += kInfinity.size() - 1;
      continue;
    }
    if (in_string && text[i] == '\\' && i + 1 < text.size()) result += text[i++];
    if (text[i] == '"') in_string = !in_string;
    result += text[i];
  }
  return result;
}

const ModelFamily* FamilyOf(JsonFields& fields) {
  const std::optional<std::string> model_type = fields.String("model_type");
  if (!model_type.has_value()) {
    fields.Reject("model_type", KnownModelTypes());
    return nullptr;
  }
  const ModelFamily* family = FindModelFamily(*model_type);
  if (family == nullptr) {
    fields.Fail(absl::StrCat("model_type ", ValueText(*fields.Get("model_type")),
                             " is not supported; accepted: ", KnownModelTypes()),
                absl::StatusCode::kUnimplemented);
  }
  return family;
}

// Applied to config.json first and to generation_config.json after it, whose ids win.
void MapTokenIds(JsonFields& fields, ModelConfig& config) {
  const int last = config.vocab_size - 1;
  if (auto id = fields.OptionalInt("bos_token_id", 0, last)) config.bos_token_id = id;
  if (auto ids = fields.IntOrList("eos_token_id", 0, last)) config.eos_token_ids = *ids;
  if (!config.source.has_value()) return;
  if (auto id = fields.OptionalInt("decoder_start_token_id", 0, last)) {
    config.source->start_token_id = *id;
  }
  if (auto id = fields.OptionalInt("forced_bos_token_id", 0, last)) {
    config.source->forced_bos_token_id = id;
  }
}

void MapGenerationDefaults(JsonFields& fields, GenerationDefaults& defaults) {
  defaults.do_sample = fields.Bool("do_sample");
  defaults.temperature = fields.NumberAtLeast("temperature", 0, 1e6);
  defaults.top_k = fields.OptionalInt("top_k", -1, INT_MAX);
  if (defaults.top_k == -1) defaults.top_k = 0;  // vLLM's word for no limit
  defaults.top_p = fields.NumberAbove("top_p", 0, 1);
  defaults.max_length = fields.OptionalInt("max_length", 1, INT_MAX);
}

// The file's scaling or, where there is one, the override.
void MapPositions(JsonFields& fields, const RopeDefaults& defaults, const ModelOverrides& overrides,
                  ModelConfig& config) {
  if (overrides.rope_scaling.empty()) return MapRope(fields, defaults, nullptr, config);
  const auto object = ParseRopeScaling(overrides.rope_scaling);
  if (!object.ok()) {
    fields.Fail(std::string(object.status().message()));
    return;
  }
  JsonFields scaling("--rope_scaling", *object);
  MapRope(fields, defaults, &scaling, config);
}

}  // namespace

bool ModelConfig::depends_on_length() const {
  return std::any_of(ropes.begin(), ropes.end(),
                     [](const RopeConfig& rope) { return rope.depends_on_length(); });
}

int32_t ModelConfig::RopeLengthClass(int32_t length) const {
  int32_t longest = std::numeric_limits<int32_t>::max();
  for (const RopeConfig& rope : ropes) longest = std::min(longest, rope.RopeLengthClass(length));
  return longest;
}

int ModelConfig::NumAttentionLayers(int64_t begin, int64_t end) const {
  return static_cast<int>(
      std::count_if(layers.begin() + begin, layers.begin() + end,
                    [](const LayerSpec& layer) { return layer.attention.has_keys(); }));
}

int ModelConfig::NumRecurrentLayers(int64_t begin, int64_t end) const {
  return static_cast<int>(
      std::count_if(layers.begin() + begin, layers.begin() + end,
                    [](const LayerSpec& layer) { return layer.attention.recurrent.has_value(); }));
}

namespace {

absl::StatusOr<ModelConfig> ParseTexts(const ConfigTexts& texts, const ModelOverrides& overrides) {
  auto config_json = ParseJson(WithoutInfinities(texts.config), texts.config_source);
  if (!config_json.ok()) return config_json.status();
  std::optional<nlohmann::json> text = TextConfig(*config_json);
  nlohmann::json& object = text.has_value() ? *text : *config_json;
  JsonFields fields(texts.config_source, object, text.has_value() ? "text_config." : "");
  const ModelFamily* family = FamilyOf(fields);
  if (family == nullptr) return fields.status();
  AddDefaults(*family, object);
  ModelConfig config;
  config.quantization = ReadQuantization(fields);
  config.model_type = family->model_type;
  family->map(fields, config);
  if (!config.ropes.empty() && fields.status().ok()) {
    MapPositions(fields, family->rope, overrides, config);
  } else if (!overrides.rope_scaling.empty()) {
    fields.Fail("its positions are not rotary; accepted: no --rope_scaling");
  }
  MapTokenIds(fields, config);
  if (!fields.status().ok()) return fields.status();
  if (texts.generation.empty()) return config;

  const auto generation_json = ParseJson(texts.generation, texts.generation_source);
  if (!generation_json.ok()) return generation_json.status();
  JsonFields generation_fields(texts.generation_source, *generation_json);
  MapTokenIds(generation_fields, config);
  MapGenerationDefaults(generation_fields, config.generation);
  if (!generation_fields.status().ok()) return generation_fields.status();
  return config;
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(const std::string& config_text,
                                             const std::string& generation_text,
                                             const std::string& source,
                                             const ModelOverrides& overrides) {
  return ParseTexts({.config = config_text,
                     .generation = generation_text,
                     .config_source = PathIn(source, "config.json"),
                     .generation_source = PathIn(source, "generation_config.json")},
                    overrides);
}

absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& model,
                                            const ModelOverrides& overrides) {
  const absl::StatusOr<ConfigTexts> texts = ReadConfigTexts(model);
  if (!texts.ok()) return texts.status();
  absl::StatusOr<ModelConfig> config = ParseTexts(*texts, overrides);
  // What families add to the weights of norms, GGUF files have already.
  if (config.ok() && IsGgufPath(model)) config->norm_weight_offset = 0;
  if (config.ok() && !IsGgufPath(model)) {
    absl::StatusOr<std::optional<EmbedderSpec>> embedder = LoadEmbedderSpec(model, *config);
    if (!embedder.ok()) return embedder.status();
    config->embedder = *std::move(embedder);
    if (config->embedder.has_value()) config->has_head = false;
  }
  if (config.ok()) DescribePublishedTensors(model, *config);
  return config;
}

}  // namespace sluice
