// The texts that say what a model is, of a folder or of a GGUF file.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace sluice {

struct ConfigTexts {
  std::string config;
  std::string generation;  // empty: there is none
  // For messages.
  std::string config_source;
  std::string generation_source;
};

// Reads config.json and, where there is one, generation_config.json of a folder, or makes them of a
// GGUF file's metadata (gguf/gguf_config.h). NOT_FOUND where there is no such model, else what
// reading or the metadata is refused with.
absl::StatusOr<ConfigTexts> ReadConfigTexts(const std::string& model);

}  // namespace sluice
