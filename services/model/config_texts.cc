#include "services/model/config_texts.h"

#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "services/model/gguf/gguf_config.h"
#include "services/model/gguf_model.h"
#include "services/model/json_fields.h"

namespace sluice {
namespace {

absl::StatusOr<ConfigTexts> TextsOfGguf(const std::string& path) {
  const absl::StatusOr<GgufModel> model = GgufModel::Open(path);
  if (!model.ok()) return model.status();
  absl::StatusOr<GgufConfig> made = MakeGgufConfig(model->view());
  if (!made.ok()) return made.status();
  const std::string source = absl::StrCat(path, ", as config.json");
  return ConfigTexts{.config = made->config,
                     .generation = made->generation,
                     .config_source = source,
                     .generation_source = source};
}

}  // namespace

absl::StatusOr<ConfigTexts> ReadConfigTexts(const std::string& model) {
  if (IsGgufPath(model)) return TextsOfGguf(model);
  std::error_code ignored;  // an unreadable folder is refused with its first file
  const std::filesystem::file_type kind = std::filesystem::status(model, ignored).type();
  if (kind != std::filesystem::file_type::directory && kind != std::filesystem::file_type::none) {
    return absl::NotFoundError(
        absl::StrCat(model,
                     ": no such folder; accepted: a folder with config.json and "
                     "model.safetensors, or a file named *.gguf"));
  }
  ConfigTexts texts{.config_source = PathIn(model, "config.json"),
                    .generation_source = PathIn(model, "generation_config.json")};
  auto config = ReadTextFile(texts.config_source);
  if (!config.ok()) return config.status();
  texts.config = *std::move(config);
  auto generation = ReadTextFile(texts.generation_source);
  if (!generation.ok() && !absl::IsNotFound(generation.status())) return generation.status();
  if (generation.ok()) texts.generation = *std::move(generation);
  return texts;
}

}  // namespace sluice
