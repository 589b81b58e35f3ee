// Opens an adapter by itself, for processes that have but one.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "services/model/adapter_source.h"
#include "services/model/model_config.h"

namespace sluice {

// The adapter in a PEFT folder, for the model in a folder or GGUF file. Errors as AdapterSource::Open
// and PublishedPlaces.
absl::StatusOr<AdapterSource> OpenAdapter(const std::string& folder, const std::string& model,
                                          const ModelConfig& config);

}  // namespace sluice
