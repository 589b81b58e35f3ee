// Small models of every family, made of nothing but a seed: sizes, switches and weights are random.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/dtype.h"
#include "services/model/model_config.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {

// How many positions such a model reaches at least.
inline constexpr int kRandomModelPositions = 640;

struct RandomModelOptions {
  std::string model_type;
  uint32_t seed = 0;
  // Every projection can be cut into the groups of INT8 and INT4. Otherwise chance decides by
  // hidden size, head_dim and MLP width, and many are kept as BF16 (weight_rule.h).
  bool all_in_groups = false;
  DType stored = DType::kF32;  // or BF16
};

// Every family that generates from a prompt alone: encoders and sources are computed in one piece, and
// embed_test, text_passes_test and source_test have them.
std::vector<std::string> ModelTypes();

// A config.json with every switch that any family knows: each reads its own. 1, 2 and 4 ranks can
// share the model, though it may have fewer KV heads, and it has 2 or 3 layers.
std::string RandomModelConfig(const RandomModelOptions& options);

// Writes the model's config.json and model.safetensors, and returns what it is. The weights are of
// a size that neither lets activations vanish nor makes attention look at one position alone.
ModelConfig WriteRandomModel(const RandomModelOptions& options, const TempFolder& folder);

}  // namespace sluice::testing
