#include "services/model/identity.h"

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "services/model/config_texts.h"
#include "services/model/embedder_spec.h"
#include "services/model/gguf_model.h"

namespace sluice {
namespace {

// 64 bits: the same in every process and on every host.
uint64_t Fnv1a(std::string_view text, uint64_t seed) {
  uint64_t hash = seed;
  for (const char c : text) {
    hash ^= static_cast<uint8_t>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace

std::string ModelName(const std::string& model) {
  std::error_code ignored;  // nowhere to be from: what is there names it
  if (IsGgufPath(model)) return GgufModelName(model);
  const std::filesystem::path path = std::filesystem::absolute(model + "/", ignored);
  return path.lexically_normal().parent_path().filename().string();
}

absl::StatusOr<ModelIdentity> IdentifyModel(const std::string& model,
                                            const ModelOverrides& overrides) {
  const absl::StatusOr<ConfigTexts> texts = ReadConfigTexts(model);
  if (!texts.ok()) return texts.status();
  uint64_t hash = Fnv1a(texts->config, 0xcbf29ce484222325);
  hash = Fnv1a(texts->generation, hash);
  hash = Fnv1a(overrides.rope_scaling, hash);
  if (!IsGgufPath(model)) hash = Fnv1a(EmbedderTexts(model), hash);
  return ModelIdentity{ModelName(model), absl::StrCat(absl::Hex(hash, absl::kZeroPad16))};
}

}  // namespace sluice
