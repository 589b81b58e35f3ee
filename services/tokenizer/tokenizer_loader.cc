// Tokenizer's way from a folder: which file to read, and what its name says about it.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "services/model/gguf_model.h"
#include "services/model/json_fields.h"
#include "services/tokenizer/text/strings.h"
#include "services/tokenizer/tiktoken/tiktoken_file.h"
#include "services/tokenizer/tokenizer.h"
#include "services/tokenizer/tokenizer_from_gguf.h"

namespace sluice {
namespace {

constexpr const char* kModelNames[] = {"tokenizer.model", "spiece.model",
                                       "sentencepiece.bpe.model"};
constexpr std::string_view kLookedFor =
    "tokenizer.json, tokenizer.model, spiece.model, sentencepiece.bpe.model, *.tiktoken";

// A link that leads nowhere is there too: reading it says so.
bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

std::optional<std::string> FirstModel(const std::string& folder) {
  for (const char* name : kModelNames) {
    std::string path = PathIn(folder, name);
    if (IsThere(path)) return path;
  }
  return std::nullopt;
}

// The first by name.
std::optional<std::string> FirstTiktoken(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".tiktoken") found.push_back(entry->path().string());
  }
  std::sort(found.begin(), found.end());
  return found.empty() ? std::nullopt : std::optional(found.front());
}

// tokenizer_config.json says it, or the file's name does; tokenizer.model is Llama 3's.
absl::StatusOr<TiktokenFormat> FormatOf(const std::string& path, const TokenizerConfig& config) {
  const std::filesystem::path file(path);
  const std::string stem = file.extension() == ".tiktoken" ? file.stem().string() : "llama3";
  std::optional<TiktokenFormat> format = TiktokenPreset(stem);
  if (!config.split_pattern.has_value()) {
    if (format.has_value()) return *std::move(format);
    return absl::InvalidArgumentError(
        StrCat(path,
               ": nothing says how to split text; accepted: \"pat_str\" in "
               "tokenizer_config.json, or one of the names ",
               kTiktokenPresets));
  }
  if (!format.has_value()) format.emplace();
  format->pattern = *config.split_pattern;
  return *std::move(format);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::Load(const std::string& folder,
                                                                 const std::string& chat_template) {
  absl::StatusOr<TokenizerConfig> config = LoadTokenizerConfig(folder, chat_template);
  if (config.ok() && IsGgufPath(folder)) {
    const absl::StatusOr<GgufModel> model = GgufModel::Open(folder);
    if (!model.ok()) return model.status();
    return TokenizerFromGguf(model->view(), *std::move(config));
  }
  if (!config.ok()) return config.status();
  const std::string json = PathIn(folder, "tokenizer.json");
  if (IsThere(json)) {
    const absl::StatusOr<std::string> text = ReadTextFile(json);
    if (!text.ok()) return text.status();
    return FromJson(*text, json, *std::move(config));
  }
  std::optional<std::string> path = FirstModel(folder);
  if (!path.has_value()) path = FirstTiktoken(folder);
  if (!path.has_value()) {
    return absl::NotFoundError(StrCat(folder, " has no tokenizer; looked for ", kLookedFor));
  }
  const absl::StatusOr<std::string> bytes = ReadTextFile(*path);
  if (!bytes.ok()) return bytes.status();
  if (!path->ends_with(".tiktoken") && !LooksLikeTiktoken(*bytes)) {
    return FromSentencePiece(*bytes, *path, *std::move(config));
  }
  const absl::StatusOr<TiktokenFormat> format = FormatOf(*path, *config);
  if (!format.ok()) return format.status();
  return FromTiktoken(*bytes, *path, *format, *std::move(config));
}

}  // namespace sluice
