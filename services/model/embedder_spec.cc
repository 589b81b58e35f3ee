#include "services/model/embedder_spec.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "services/model/json_fields.h"
#include "services/model/model_config.h"

namespace sluice {
namespace {

constexpr int kMostFeatures = 1 << 20;
constexpr int kMostLabels = 1 << 16;

struct NamedPooling {
  const char* name;
  Pooling pooling;
};

// In the order in which sentence-transformers joins their results.
constexpr NamedPooling kPoolings[] = {
    {"cls_token", Pooling::kCls},
    {"max_tokens", Pooling::kMax},
    {"mean_tokens", Pooling::kMean},
    {"mean_sqrt_len_tokens", Pooling::kMeanSqrtLength},
    {"weightedmean_tokens", Pooling::kWeightedMean},
    {"lasttoken", Pooling::kLast},
};

struct NamedStepActivation {
  const char* name;
  StepActivation activation;
};

// The last part of a class of torch.nn, or a name of Hugging Face's.
constexpr NamedStepActivation kStepActivations[] = {
    {"Identity", StepActivation::kNone},     {"Tanh", StepActivation::kTanh},
    {"GELU", StepActivation::kGelu},         {"ReLU", StepActivation::kRelu},
    {"SiLU", StepActivation::kSilu},         {"tanh", StepActivation::kTanh},
    {"gelu", StepActivation::kGelu},         {"gelu_pytorch_tanh", StepActivation::kGeluTanh},
    {"gelu_new", StepActivation::kGeluTanh}, {"relu", StepActivation::kRelu},
    {"silu", StepActivation::kSilu},
};

template <typename Table>
std::string QuotedNames(const Table& table) {
  return absl::StrJoin(table, ", ", [](std::string* out, const auto& each) {
    absl::StrAppend(out, "\"", each.name, "\"");
  });
}

// What stands behind the last dot.
std::string AfterLastDot(const std::string& path) { return path.substr(path.rfind('.') + 1); }

StepActivation ReadStepActivation(JsonFields& fields, const char* name, StepActivation otherwise) {
  if (!fields.Has(name)) return otherwise;
  const std::string given = AfterLastDot(fields.String(name).value_or(""));
  for (const NamedStepActivation& known : kStepActivations) {
    if (given == known.name) return known.activation;
  }
  fields.Reject(name, QuotedNames(kStepActivations), absl::StatusCode::kUnimplemented);
  return otherwise;
}

absl::StatusOr<nlohmann::json> ReadModuleJson(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return text.status();
  return ParseJson(*text, path);
}

// Reads the modules of a sentence-transformers folder one after another.
class ModulesReader {
 public:
  ModulesReader(std::string folder, int hidden_size)
      : folder_(std::move(folder)), width_(hidden_size) {}

  absl::StatusOr<EmbedderSpec> Read() {
    const std::string path = PathIn(folder_, "modules.json");
    const absl::StatusOr<nlohmann::json> modules = ReadModuleJson(path);
    if (!modules.ok()) return modules.status();
    if (!modules->is_array()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": accepted: a list of modules"));
    }
    for (const nlohmann::json& module : *modules) {
      JsonFields fields(path, module);
      const std::string type = fields.RequiredString("type");
      const std::string place = fields.String("path").value_or("");
      absl::Status status = fields.status();
      if (status.ok()) status = ReadModule(AfterLastDot(type), place, fields);
      if (!status.ok()) return status;
    }
    if (spec_.poolings.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " names no module of type Pooling; accepted: one"));
    }
    if (const absl::Status status = ReadPrompts(); !status.ok()) return status;
    spec_.dimensions = width_;
    return std::move(spec_);
  }

 private:
  absl::Status ReadModule(const std::string& kind, const std::string& place, JsonFields& fields) {
    if (place.find("..") != std::string::npos || absl::StartsWith(place, "/")) {
      fields.Reject("path", "a folder inside the model's");
      return fields.status();
    }
    if (kind == "Transformer") return absl::OkStatus();
    if (kind == "Normalize") {
      spec_.steps.push_back({.kind = EmbedderStep::Kind::kNormalise});
      return absl::OkStatus();
    }
    const std::string folder = place.empty() ? folder_ : PathIn(folder_, place);
    if (kind == "Pooling") return ReadPooling(PathIn(folder, "config.json"));
    if (kind == "Dense") return ReadDense(folder);
    fields.Reject("type", "Transformer, Pooling, Dense, Normalize",
                  absl::StatusCode::kUnimplemented);
    return fields.status();
  }

  absl::Status ReadPooling(const std::string& path) {
    const absl::StatusOr<nlohmann::json> config = ReadModuleJson(path);
    if (!config.ok()) return config.status();
    JsonFields fields(path, *config);
    spec_.poolings.clear();
    for (const auto& [name, value] : config->items()) {
      constexpr absl::string_view kPrefix = "pooling_mode_";
      if (!absl::StartsWith(name, kPrefix) || value != true) continue;
      const std::string mode = name.substr(kPrefix.size());
      const bool known = std::any_of(std::begin(kPoolings), std::end(kPoolings),
                                     [&](const NamedPooling& each) { return mode == each.name; });
      if (!known) {
        fields.Reject(name, absl::StrCat("true for ", QuotedNames(kPoolings), " alone"),
                      absl::StatusCode::kUnimplemented);
      }
    }
    for (const NamedPooling& each : kPoolings) {
      if (fields.Bool(absl::StrCat("pooling_mode_", each.name)).value_or(false)) {
        spec_.poolings.push_back(each.pooling);
      }
    }
    if (!fields.Bool("include_prompt").value_or(true)) {
      fields.Reject("include_prompt", "true: prompts are pooled, too",
                    absl::StatusCode::kUnimplemented);
    }
    if (spec_.poolings.empty()) {
      fields.Fail(absl::StrCat("no pooling is true; accepted: pooling_mode_ with one of ",
                               QuotedNames(kPoolings)));
    }
    width_ *= static_cast<int>(std::max<size_t>(spec_.poolings.size(), 1));
    return fields.status();
  }

  absl::Status ReadDense(const std::string& folder) {
    const std::string path = PathIn(folder, "config.json");
    const absl::StatusOr<nlohmann::json> config = ReadModuleJson(path);
    if (!config.ok()) return config.status();
    JsonFields fields(path, *config);
    const int inputs = fields.Int("in_features", 1, kMostFeatures);
    const int outputs = fields.Int("out_features", 1, kMostFeatures);
    if (fields.status().ok() && inputs != width_) {
      fields.Reject("in_features", absl::StrCat(width_, ", as what is before it gives"));
    }
    spec_.steps.push_back(
        {.kind = EmbedderStep::Kind::kDense,
         .folder = folder,
         .name = "linear",
         .shape = {outputs, inputs},
         .bias = fields.Bool("bias").value_or(true),
         .activation = ReadStepActivation(fields, "activation_function", StepActivation::kTanh)});
    width_ = outputs;
    return fields.status();
  }

  absl::Status ReadPrompts() {
    const std::string path = PathIn(folder_, "config_sentence_transformers.json");
    const absl::StatusOr<nlohmann::json> config = ReadModuleJson(path);
    if (absl::IsNotFound(config.status())) return absl::OkStatus();
    if (!config.ok()) return config.status();
    JsonFields fields(path, *config);
    if (const nlohmann::json* prompts = fields.Get("prompts"); prompts != nullptr) {
      for (const auto& [name, text] : prompts->items()) {
        if (text.is_string()) spec_.prompts.push_back({name, text.get<std::string>()});
      }
    }
    spec_.default_prompt = fields.String("default_prompt_name").value_or("");
    if (!spec_.default_prompt.empty() && spec_.FindPrompt(spec_.default_prompt) == nullptr) {
      fields.Reject("default_prompt_name", "the name of one of prompts");
    }
    return fields.status();
  }

  const std::string folder_;
  int width_;  // of what has been read so far gives
  EmbedderSpec spec_;
};

// The score names of a classifier, in their order.
std::vector<std::string> LabelsOf(JsonFields& fields) {
  const nlohmann::json* names = fields.Get("id2label");
  const int count = names != nullptr && names->is_object()
                        ? static_cast<int>(names->size())
                        : fields.OptionalInt("num_labels", 1, kMostLabels).value_or(2);
  std::vector<std::string> labels;
  for (int i = 0; i < count; ++i) {
    std::string label = absl::StrCat("LABEL_", i);
    if (names != nullptr && names->is_object()) {
      const auto found = names->find(absl::StrCat(i));
      if (found == names->end() || !found->is_string()) {
        fields.Reject("id2label", "an object with a name for each of 0, 1, ...");
        return labels;
      }
      label = found->get<std::string>();
    }
    labels.push_back(std::move(label));
  }
  return labels;
}

// The heads of Hugging Face's classes ...ForSequenceClassification.
absl::StatusOr<std::optional<EmbedderSpec>> ReadClassifier(const std::string& folder,
                                                           const ModelConfig& config) {
  const std::string path = PathIn(folder, "config.json");
  const absl::StatusOr<nlohmann::json> object = ReadModuleJson(path);
  if (!object.ok()) return object.status();
  JsonFields fields(path, *object);
  const nlohmann::json* architectures = fields.Get("architectures");
  const std::string architecture = architectures != nullptr && architectures->is_array() &&
                                           !architectures->empty() &&
                                           architectures->front().is_string()
                                       ? architectures->front().get<std::string>()
                                       : "";
  if (!absl::EndsWith(architecture, "ForSequenceClassification")) {
    return std::optional<EmbedderSpec>();
  }
  EmbedderSpec spec{.poolings = {Pooling::kCls}, .labels = LabelsOf(fields)};
  spec.dimensions = static_cast<int>(spec.labels.size());
  const int hidden = config.hidden_size;
  const auto dense = [&](const char* name, int outputs, StepActivation activation, bool bias) {
    spec.steps.push_back({.kind = EmbedderStep::Kind::kDense,
                          .folder = folder,
                          .name = name,
                          .shape = {outputs, hidden},
                          .bias = bias,
                          .activation = activation});
  };
  if (config.model_type == "bert") {
    dense("bert.pooler.dense", hidden, StepActivation::kTanh, true);
    dense("classifier", spec.dimensions, StepActivation::kNone, true);
  } else if (config.model_type == "distilbert") {
    dense("pre_classifier", hidden, StepActivation::kRelu, true);
    dense("classifier", spec.dimensions, StepActivation::kNone, true);
  } else if (config.model_type == "roberta" || config.model_type == "xlm-roberta") {
    dense("classifier.dense", hidden, StepActivation::kTanh, true);
    dense("classifier.out_proj", spec.dimensions, StepActivation::kNone, true);
  } else if (config.model_type == "modernbert") {
    if (fields.String("classifier_pooling").value_or("cls") == "mean") {
      spec.poolings = {Pooling::kMean};
    }
    dense("head.dense", hidden,
          ReadStepActivation(fields, "classifier_activation", StepActivation::kGelu),
          fields.Bool("classifier_bias").value_or(false));
    spec.steps.push_back({.kind = EmbedderStep::Kind::kNorm,
                          .folder = folder,
                          .name = "head.norm",
                          .shape = {hidden, 1},
                          .bias = config.norm_bias,
                          .norm_eps = config.norm_eps});
    dense("classifier", spec.dimensions, StepActivation::kNone, true);
  } else {
    fields.Reject("architectures",
                  "a classifier of bert, distilbert, roberta, xlm-roberta or "
                  "modernbert",
                  absl::StatusCode::kUnimplemented);
  }
  if (!fields.status().ok()) return fields.status();
  return std::optional<EmbedderSpec>(std::move(spec));
}

}  // namespace

const char* PoolingName(Pooling pooling) {
  for (const NamedPooling& each : kPoolings) {
    if (each.pooling == pooling) return each.name;
  }
  return "?";
}

bool EmbedderSpec::needs_all_rows() const {
  return poolings.size() != 1 || (poolings[0] != Pooling::kCls && poolings[0] != Pooling::kLast);
}

const EmbedderSpec::Prompt* EmbedderSpec::FindPrompt(const std::string& name) const {
  const auto found =
      std::ranges::find_if(prompts, [&](const Prompt& prompt) { return prompt.name == name; });
  return found == prompts.end() ? nullptr : &*found;
}

absl::StatusOr<std::optional<EmbedderSpec>> LoadEmbedderSpec(const std::string& folder,
                                                             const ModelConfig& config) {
  const absl::StatusOr<std::string> modules = ReadTextFile(PathIn(folder, "modules.json"));
  if (modules.ok()) {
    absl::StatusOr<EmbedderSpec> spec = ModulesReader(folder, config.hidden_size).Read();
    if (!spec.ok()) return spec.status();
    return std::optional<EmbedderSpec>(*std::move(spec));
  }
  if (!absl::IsNotFound(modules.status())) return modules.status();
  if (!config.is_encoder()) return std::optional<EmbedderSpec>();
  absl::StatusOr<std::optional<EmbedderSpec>> classifier = ReadClassifier(folder, config);
  if (!classifier.ok() || classifier->has_value()) return classifier;
  return std::optional<EmbedderSpec>(
      EmbedderSpec{.poolings = {Pooling::kMean}, .dimensions = config.hidden_size});
}

std::string EmbedderTexts(const std::string& folder) {
  const absl::StatusOr<std::string> modules = ReadTextFile(PathIn(folder, "modules.json"));
  if (!modules.ok()) return "";
  std::string texts = *modules;
  const absl::StatusOr<nlohmann::json> list = ParseJson(*modules, folder);
  if (!list.ok() || !list->is_array()) return texts;
  for (const nlohmann::json& module : *list) {
    if (!module.is_object()) continue;
    const auto place = module.find("path");
    if (place == module.end() || !place->is_string() || *place == "") continue;
    const auto text =
        ReadTextFile(PathIn(PathIn(folder, place->get<std::string>()), "config.json"));
    if (text.ok()) absl::StrAppend(&texts, *text);
  }
  return texts;
}

}  // namespace sluice
