#include "services/model/identity.h"

#include <cstdint>
#include <filesystem>
#include <string_view>

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

absl::StatusOr<ModelIdentity> IdentifyModel(const std::string& folder,
                                            const ModelOverrides& overrides) {
  absl::StatusOr<std::string> config = ReadTextFile(PathIn(folder, "config.json"));
  if (!config.ok()) return config.status();
  uint64_t hash = Fnv1a(*config, 0xcbf29ce484222325);
  const absl::StatusOr<std::string> generation =
      ReadTextFile(PathIn(folder, "generation_config.json"));
  if (generation.ok()) hash = Fnv1a(*generation, hash);
  hash = Fnv1a(overrides.rope_scaling, hash);
  const std::filesystem::path path = std::filesystem::path(folder + "/").lexically_normal();
  return ModelIdentity{path.parent_path().filename().string(),
                       absl::StrCat(absl::Hex(hash, absl::kZeroPad16))};
}

}  // namespace sluice
