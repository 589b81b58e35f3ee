// How processes tell whether they serve the same model. A plain value.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace sluice {

struct ModelIdentity {
  std::string name;         // of the folder
  std::string fingerprint;  // of its config.json and generation_config.json, 16 hexadecimal digits
};

// NOT_FOUND where the folder has no config.json.
absl::StatusOr<ModelIdentity> IdentifyModel(const std::string& folder);

}  // namespace sluice
