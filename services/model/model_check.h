// Plausibility checks of a model's folder beyond what loading needs. Reads a few pages of the
// weights.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/model/model_config.h"

namespace sluice {

// What is odd, though some mean it so: a line each, such as "config.json has 7 layers, the weights
// have 8". DATA_LOSS naming a tensor whose first or last numbers are not finite: nothing can be
// computed with it. Errors of Checkpoint::Open.
absl::StatusOr<std::vector<std::string>> CheckModelFiles(const std::string& folder,
                                                         const ModelConfig& config);

// The number of the layer that a tensor belongs to, as Hugging Face's names have it
// ("model.layers.7.mlp.up_proj.weight", "h.7.attn.c_attn.weight"); -1 where it is of none.
int LayerOf(const std::string& tensor);

}  // namespace sluice
