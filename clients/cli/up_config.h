// The file of `sluice up --config`: several models, each with options of its own.
//
//   http_port: 8080            # options of `sluice up`, by their names, of all models
//   memory_mib: 12000          # that the models awake at a time may take; default: the memory limit
//   models:
//     - model: models/qwen3-0.6b     # options of this one
//       kv_cache_mib: 512
//     - model: models/bge-small-en
//       served_model_name: bge
//       sleep_after: 10m             # its processes end when nobody has used it for so long
//       asleep: true                 # and are not started before somebody does
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/cli/model_flags.h"

namespace sluice {

struct ConfiguredModel {
  std::string name;  // unique among the models of a file
  ModelFlags flags{kUp};
  absl::Duration sleep_after = absl::InfiniteDuration();
  bool asleep = false;  // at first
  bool sleeps() const { return sleep_after != absl::InfiniteDuration(); }
};

struct UpConfig {
  ModelFlags common{kUp};                // of all, and of the gateway
  std::optional<uint64_t> memory_bytes;  // nothing: what this host allows
  std::vector<ConfiguredModel> models;   // at least one
};

// Options `given` beside the file hold for all models that do not set them themselves. Paths in the file
// that are there beside it are taken from there. INVALID_ARGUMENT, naming file and line, for what is no
// YAML, for an option that does not exist or belongs elsewhere, and for what an option does not accept;
// NOT_FOUND where there is no such file.
absl::StatusOr<UpConfig> ReadUpConfig(const std::string& path, const ModelFlags& given);

}  // namespace sluice
