// Identity of a served model, compared between processes. A plain value.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "services/model/model_config.h"

namespace sluice {

// What processes tell each other of the model that they serve.
struct ServedModel {
  std::string name;            // as ModelIdentity's
  std::string fingerprint;     // as ModelIdentity's
  std::string weights_digest;  // WeightsDigest() of its files
};

struct ModelIdentity {
  std::string name;  // of the folder or GGUF file
  // Of its config.json, generation_config.json and the overrides; 16 hexadecimal digits.
  std::string fingerprint;
};

// The folder's own name, also of ".", of a path with a slash behind it and of ".."; that of a GGUF
// file without its extension and the number of its part.
std::string ModelName(const std::string& model);

// NOT_FOUND where the folder has no config.json; errors of ReadConfigTexts.
absl::StatusOr<ModelIdentity> IdentifyModel(const std::string& model,
                                            const ModelOverrides& overrides = {});

}  // namespace sluice
