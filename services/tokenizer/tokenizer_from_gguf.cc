#include "services/tokenizer/tokenizer_from_gguf.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "services/tokenizer/gguf/gguf_tokenizer.h"
#include "services/tokenizer/gguf/gguf_vocabulary.h"
#include "services/tokenizer/text/strings.h"

namespace sluice {
namespace {

constexpr char kTemplateKey[] = "tokenizer.chat_template";

void NameToken(const GgufVocabulary& vocabulary, std::optional<TokenId> id, const char* name,
               TokenizerConfig& config) {
  if (!id.has_value()) return;
  config.special_tokens.emplace(name, vocabulary.tokens[static_cast<size_t>(*id)]);
}

// "tokenizer.chat_template" is the default one, "tokenizer.chat_template.NAME" others.
absl::Status ReadTemplates(const GgufView& view, TokenizerConfig& config) {
  for (const auto& [key, value] : view.metadata) {
    if (!absl::StartsWith(key, kTemplateKey) || value.is_array()) continue;
    const std::string rest = key.substr(std::string(kTemplateKey).size());
    if (!rest.empty() && rest[0] != '.') continue;
    const auto text = value.Text();
    const std::string where = StrCat(view.source, ": ", key);
    if (!text.has_value()) {
      return absl::InvalidArgumentError(
          StrCat(where, " is ", value.ForMessage(), "; accepted: a text"));
    }
    const std::string name = rest.empty() ? "default" : rest.substr(1);
    config.chat_templates.emplace(name, *text);
    config.chat_template_sources.emplace(name, where);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerConfig> GgufTokenizerConfig(const GgufView& view) {
  const absl::StatusOr<GgufVocabulary> vocabulary = ReadGgufVocabulary(view);
  if (!vocabulary.ok()) return vocabulary.status();
  TokenizerConfig config;
  NameToken(*vocabulary, vocabulary->bos, "bos_token", config);
  NameToken(*vocabulary, vocabulary->eos, "eos_token", config);
  NameToken(*vocabulary, vocabulary->unknown, "unk_token", config);
  NameToken(*vocabulary, vocabulary->padding, "pad_token", config);
  const auto named = [&](const char* name) -> std::optional<std::string> {
    const auto found = config.special_tokens.find(name);
    if (found == config.special_tokens.end()) return std::nullopt;
    return found->second;
  };
  config.bos_token = named("bos_token");
  config.eos_token = named("eos_token");
  config.add_bos_token = vocabulary->adds_bos;
  config.add_eos_token = vocabulary->adds_eos;
  if (absl::Status read = ReadTemplates(view, config); !read.ok()) return read;
  return config;
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> TokenizerFromGguf(const GgufView& view,
                                                                   TokenizerConfig config) {
  const absl::StatusOr<GgufVocabulary> vocabulary = ReadGgufVocabulary(view);
  if (!vocabulary.ok()) return vocabulary.status();
  const absl::StatusOr<std::string> text = GgufTokenizerJson(*vocabulary, view.source);
  if (!text.ok()) return text.status();
  return Tokenizer::FromJson(*text, view.source + ", as tokenizer.json", std::move(config));
}

}  // namespace sluice
