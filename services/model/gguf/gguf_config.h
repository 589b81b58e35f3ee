// The configuration that a GGUF file's metadata stands for, in the words of the Hugging Face folder
// that it was made from, so that services/model reads one kind of configuration. Pure function.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "services/model/gguf/gguf_fields.h"

namespace sluice {

// Texts of a config.json and a generation_config.json.
struct GgufConfig {
  std::string config;
  std::string generation;
};

// INVALID_ARGUMENT naming file, key, value and what is accepted; UNIMPLEMENTED for a
// general.architecture that is not in the table.
absl::StatusOr<GgufConfig> MakeGgufConfig(const GgufView& view);

}  // namespace sluice
