#include "services/model/identity.h"

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "services/model/json_fields.h"

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

std::string ModelName(const std::string& folder) {
  std::error_code ignored;  // nowhere to be from: what is there names it
  const std::filesystem::path path = std::filesystem::absolute(folder + "/", ignored);
  return path.lexically_normal().parent_path().filename().string();
}

absl::StatusOr<ModelIdentity> IdentifyModel(const std::string& folder,
                                            const ModelOverrides& overrides) {
  absl::StatusOr<std::string> config = ReadTextFile(PathIn(folder, "config.json"));
  if (!config.ok()) return config.status();
  uint64_t hash = Fnv1a(*config, 0xcbf29ce484222325);
  const absl::StatusOr<std::string> generation =
      ReadTextFile(PathIn(folder, "generation_config.json"));
  if (generation.ok()) hash = Fnv1a(*generation, hash);
  hash = Fnv1a(overrides.rope_scaling, hash);
  return ModelIdentity{ModelName(folder), absl::StrCat(absl::Hex(hash, absl::kZeroPad16))};
}

}  // namespace sluice
