// What GGUF files call a model's tensors, whatever its family. Pure function.
#pragma once

#include "services/model/checkpoint.h"
#include "services/model/model_config.h"
#include "services/model/tensor_names.h"

namespace sluice {

// The names in a model's files: which projections are fused, whether experts lie together and how
// latent attention is cut, the files tell; rows of q and k are reordered as llama.cpp's converter
// leaves them in families that it rotates in neighbouring pairs.
TensorNames GgufTensorNames(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace sluice
