#include "services/model/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/model/json_fields.h"

namespace sluice {
namespace {

constexpr size_t kMaxPatterns = 1024;
constexpr size_t kMaxPatternLength = 256;
constexpr double kMaxAlpha = 1e6;

// Fields that change the arithmetic where they are neither absent nor false nor empty.
constexpr const char* kRefusedFields[] = {"use_dora",
                                          "lora_bias",
                                          "use_qalora",
                                          "use_bdlora",
                                          "alora_invocation_tokens",
                                          "trainable_token_indices",
                                          "target_parameters",
                                          "layer_replication",
                                          "megatron_config",
                                          "arrow_config"};

bool IsNeutral(const nlohmann::json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  return value.empty();  // of null, too
}

struct Pattern {
  std::regex expression;
  double value = 0;
};

std::optional<double> FirstMatch(const std::vector<Pattern>& patterns, const std::string& module) {
  const auto found = std::find_if(patterns.begin(), patterns.end(), [&](const Pattern& pattern) {
    return std::regex_match(module, pattern.expression);
  });
  return found == patterns.end() ? std::nullopt : std::optional(found->value);
}

// In time that is polynomial in the lengths, whatever the pattern.
std::optional<std::regex> Compile(const std::string& pattern) {
  try {
    return std::regex(absl::StrCat("(.*\\.)?(", pattern, ")"),
                      std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error&) {
    return std::nullopt;
  }
}

// In the file's order, as the first match counts. `object` is that field of the text.
void ReadPatterns(const nlohmann::ordered_json& object, const std::string& name, double max,
                  JsonFields& fields, std::vector<Pattern>& patterns) {
  if (object.is_null()) return;
  if (!object.is_object() || object.size() > kMaxPatterns) {
    return fields.Reject(name, absl::StrCat("an object of at most ", kMaxPatterns, " patterns"));
  }
  for (const auto& [pattern, value] : object.items()) {
    if (!value.is_number() || !(value.get<double>() > 0) || !(value.get<double>() <= max)) {
      return fields.Reject(name, absl::StrCat("numbers above 0, at most ", max));
    }
    std::optional<std::regex> expression;
    if (pattern.size() <= kMaxPatternLength) expression = Compile(pattern);
    if (!expression.has_value()) {
      return fields.Reject(name, absl::StrCat("regular expressions of at most ", kMaxPatternLength,
                                              " characters, without references back"));
    }
    patterns.push_back({*std::move(expression), value.get<double>()});
  }
}

void CheckKind(const nlohmann::json& config, JsonFields& fields) {
  if (fields.RequiredString("peft_type") != "LORA") fields.Reject("peft_type", "\"LORA\"");
  if (fields.String("bias").value_or("none") != "none") {
    fields.Reject("bias", "\"none\"", absl::StatusCode::kUnimplemented);
  }
  for (const char* const name : kRefusedFields) {
    const auto found = config.find(name);
    if (found != config.end() && !IsNeutral(*found)) {
      fields.Reject(name, "absent: such adapters are not computed",
                    absl::StatusCode::kUnimplemented);
    }
  }
}

}  // namespace

struct AdapterConfig::Patterns {
  std::vector<Pattern> ranks;
  std::vector<Pattern> alphas;
};

AdapterConfig::AdapterConfig() : patterns_(std::make_unique<Patterns>()) {}
AdapterConfig::~AdapterConfig() = default;
AdapterConfig::AdapterConfig(AdapterConfig&&) noexcept = default;
AdapterConfig& AdapterConfig::operator=(AdapterConfig&&) noexcept = default;

absl::StatusOr<AdapterConfig> AdapterConfig::Parse(const std::string& text,
                                                   const std::string& source) {
  const absl::StatusOr<nlohmann::json> json = ParseJson(text, source);
  if (!json.ok()) return json.status();
  if (!json->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": not an object"));
  }
  JsonFields fields(source, *json);
  CheckKind(*json, fields);
  AdapterConfig config;
  config.rank_ = fields.Int("r", 1, kMaxRank);
  config.alpha_ = fields.NumberAbove("lora_alpha", 0, kMaxAlpha).value_or(8);
  config.is_rank_stabilised_ = fields.Bool("use_rslora").value_or(false);
  config.fan_in_fan_out_ = fields.Bool("fan_in_fan_out").value_or(false);
  config.base_model_ = fields.String("base_model_name_or_path").value_or("");
  // Parsed before, so that nothing can go wrong.
  const auto ordered = nlohmann::ordered_json::parse(text);
  Patterns& patterns = *config.patterns_;
  if (ordered.contains("rank_pattern")) {
    ReadPatterns(ordered["rank_pattern"], "rank_pattern", kMaxRank, fields, patterns.ranks);
  }
  if (ordered.contains("alpha_pattern")) {
    ReadPatterns(ordered["alpha_pattern"], "alpha_pattern", kMaxAlpha, fields, patterns.alphas);
  }
  if (!fields.status().ok()) return fields.status();
  return config;
}

int AdapterConfig::RankOf(const std::string& module) const {
  return static_cast<int>(FirstMatch(patterns_->ranks, module).value_or(rank_));
}

double AdapterConfig::ScaleOf(const std::string& module) const {
  const double rank = RankOf(module);
  const double alpha = FirstMatch(patterns_->alphas, module).value_or(alpha_);
  return alpha / (is_rank_stabilised_ ? std::sqrt(rank) : rank);
}

}  // namespace sluice
