// Contents of tokenizer_config.json: BOS and EOS tokens, chat templates. A plain value.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "services/tokenizer/vocabulary/added_tokens.h"

namespace sluice {

struct TokenizerConfig {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  // Where there is no tokenizer.json to say it: whether these two are put around a text,
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  // the expression at whose matches text is split (the field "pat_str"),
  std::optional<std::string> split_pattern;
  // and added tokens with their ids (the field "added_tokens_decoder").
  std::vector<AddedToken> added_tokens;
  // Jinja templates by name; the unnamed one is "default".
  std::map<std::string, std::string> chat_templates;
  // Where each of them is from, for messages.
  std::map<std::string, std::string> chat_template_sources;
  // bos_token, eos_token, unk_token, ...: what templates are given, by name.
  std::map<std::string, std::string> special_tokens;
};

// Reads tokenizer_config.json and, where there are such, chat_template.jinja, which is the default
// template then, and additional_chat_templates/NAME.jinja; or what the GGUF file `folder` says in
// their place. Without these files: an empty configuration. `chat_template`, where it is not empty,
// is a file that replaces all of the model's templates. INVALID_ARGUMENT naming file, field and
// value; NOT_FOUND for a `chat_template` that is not there.
absl::StatusOr<TokenizerConfig> LoadTokenizerConfig(const std::string& folder,
                                                    const std::string& chat_template = "");

// The same of the text of a tokenizer_config.json, which messages call `source`.
absl::StatusOr<TokenizerConfig> ParseTokenizerConfig(std::string_view text,
                                                     std::string_view source);

}  // namespace sluice
