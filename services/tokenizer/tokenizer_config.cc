#include "services/tokenizer/tokenizer_config.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "services/model/gguf_model.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/tokenizer_from_gguf.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {
namespace {

constexpr char kDefaultTemplate[] = "default";

// A token is given by its content or as an object that holds it.
absl::StatusOr<std::optional<std::string>> TokenFromJson(const JsonPlace& place) {
  if (place.value->is_null()) return std::nullopt;
  const JsonPlace content = place.value->is_object() ? place.Member("content") : place;
  if (!content.value->is_string()) return place.Reject("a string or {\"content\": a string}");
  return content.value->get<std::string>();
}

// {"128000": {"content": "<|begin|>", "special": true, ...}, ...}
absl::Status AddedTokensFromJson(const JsonPlace& place, TokenizerConfig* config) {
  if (!place.value->is_object()) return absl::OkStatus();
  for (const auto& [id, value] : place.value->items()) {
    const JsonPlace element = place.Member(id);
    JsonFields fields = element.Fields();
    AddedToken token;
    if (!absl::SimpleAtoi(id, &token.id) || token.id < 0 || token.id >= Vocabulary::kMaxIds) {
      return element.Reject("a token under its id");
    }
    token.content = fields.String("content").value_or("");
    if (token.content.empty()) fields.Reject("content", "a string, not empty");
    token.single_word = fields.Bool("single_word").value_or(false);
    token.lstrip = fields.Bool("lstrip").value_or(false);
    token.rstrip = fields.Bool("rstrip").value_or(false);
    token.special = fields.Bool("special").value_or(false);
    if (!fields.status().ok()) return fields.status();
    config->added_tokens.push_back(std::move(token));
  }
  return absl::OkStatus();
}

absl::Status TemplatesFromJson(const JsonPlace& place, TokenizerConfig* config) {
  if (place.value->is_null()) return absl::OkStatus();
  if (place.value->is_string()) {
    config->chat_templates.emplace(kDefaultTemplate, place.value->get<std::string>());
    config->chat_template_sources.emplace(kDefaultTemplate, place.source + ": " + place.path);
    return absl::OkStatus();
  }
  if (!place.value->is_array()) return place.Reject("a string or a list of named templates");
  for (size_t i = 0; i < place.value->size(); ++i) {
    const JsonPlace element = place.Element(i);
    const JsonPlace name = element.Member("name");
    const JsonPlace text = element.Member("template");
    if (!name.value->is_string() || !text.value->is_string()) {
      return element.Reject("{\"name\": a string, \"template\": a string}");
    }
    config->chat_templates[name.value->get<std::string>()] = text.value->get<std::string>();
    config->chat_template_sources[name.value->get<std::string>()] = text.source + ": " + text.path;
  }
  return absl::OkStatus();
}

// What templates are given of the tokens, whatever else the file says of them.
void SpecialTokensFromJson(const JsonPlace& root, TokenizerConfig* config) {
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                           "cls_token", "mask_token"}) {
    const absl::StatusOr<std::optional<std::string>> token = TokenFromJson(root.Member(name));
    if (token.ok() && token->has_value()) config->special_tokens[name] = **token;
  }
}

// Templates in files of their own.
absl::Status TemplateFromFile(const std::string& path, const std::string& name,
                              TokenizerConfig* config) {
  absl::StatusOr<std::string> jinja = ReadTextFile(path);
  if (absl::IsNotFound(jinja.status())) return absl::OkStatus();
  if (!jinja.ok()) return jinja.status();
  config->chat_templates[name] = *std::move(jinja);
  config->chat_template_sources[name] = path;
  return absl::OkStatus();
}

absl::Status TemplatesFromFiles(const std::string& folder, TokenizerConfig* config) {
  absl::Status status =
      TemplateFromFile(PathIn(folder, "chat_template.jinja"), kDefaultTemplate, config);
  std::error_code none;
  for (std::filesystem::directory_iterator file(PathIn(folder, "additional_chat_templates"), none),
       end;
       !none && file != end && status.ok(); file.increment(none)) {
    const std::filesystem::path& path = file->path();
    if (path.extension() != ".jinja") continue;
    status = TemplateFromFile(path.string(), path.stem().string(), config);
  }
  return status;
}

absl::StatusOr<TokenizerConfig> WithOnlyTemplate(const std::string& path, TokenizerConfig config) {
  absl::StatusOr<std::string> jinja = ReadTextFile(path);
  if (!jinja.ok()) return jinja.status();
  config.chat_templates = {{kDefaultTemplate, *std::move(jinja)}};
  config.chat_template_sources = {{kDefaultTemplate, path}};
  return config;
}

}  // namespace

absl::StatusOr<TokenizerConfig> ParseTokenizerConfig(std::string_view text,
                                                     std::string_view source) {
  absl::StatusOr<nlohmann::json> json = ParseJson(std::string(text), std::string(source));
  if (!json.ok()) return json.status();
  const JsonPlace root{&*json, std::string(source), ""};
  if (!json->is_object()) return root.Reject("a JSON object");
  TokenizerConfig config;
  absl::StatusOr<std::optional<std::string>> bos = TokenFromJson(root.Member("bos_token"));
  if (!bos.ok()) return bos.status();
  absl::StatusOr<std::optional<std::string>> eos = TokenFromJson(root.Member("eos_token"));
  if (!eos.ok()) return eos.status();
  config.bos_token = *std::move(bos);
  config.eos_token = *std::move(eos);
  // Only tokenizers without a tokenizer.json need these.
  const JsonPlace add_bos = root.Member("add_bos_token");
  if (add_bos.value->is_boolean()) config.add_bos_token = add_bos.value->get<bool>();
  const JsonPlace add_eos = root.Member("add_eos_token");
  if (add_eos.value->is_boolean()) config.add_eos_token = add_eos.value->get<bool>();
  // T5's own program ends every text so, which no field says.
  const JsonPlace kind = root.Member("tokenizer_class");
  const bool is_t5 =
      kind.value->is_string() && (*kind.value == "T5Tokenizer" || *kind.value == "T5TokenizerFast");
  if (is_t5 && !config.add_eos_token.has_value()) config.add_eos_token = true;
  const JsonPlace pattern = root.Member("pat_str");
  if (pattern.value->is_string()) config.split_pattern = pattern.value->get<std::string>();
  if (auto status = AddedTokensFromJson(root.Member("added_tokens_decoder"), &config);
      !status.ok()) {
    return status;
  }
  SpecialTokensFromJson(root, &config);
  if (auto status = TemplatesFromJson(root.Member("chat_template"), &config); !status.ok()) {
    return status;
  }
  return config;
}

absl::StatusOr<TokenizerConfig> LoadTokenizerConfig(const std::string& folder,
                                                    const std::string& chat_template) {
  if (IsGgufPath(folder)) {
    const absl::StatusOr<GgufModel> model = GgufModel::Open(folder);
    if (!model.ok()) return model.status();
    absl::StatusOr<TokenizerConfig> config = GgufTokenizerConfig(model->view());
    if (!config.ok() || chat_template.empty()) return config;
    return WithOnlyTemplate(chat_template, *std::move(config));
  }
  TokenizerConfig config;
  const std::string path = PathIn(folder, "tokenizer_config.json");
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (text.ok()) {
    absl::StatusOr<TokenizerConfig> parsed = ParseTokenizerConfig(*text, path);
    if (!parsed.ok()) return parsed.status();
    config = *std::move(parsed);
  } else if (!absl::IsNotFound(text.status())) {
    return text.status();
  }
  if (!chat_template.empty()) return WithOnlyTemplate(chat_template, std::move(config));
  if (auto status = TemplatesFromFiles(folder, &config); !status.ok()) return status;
  return config;
}

}  // namespace sluice
