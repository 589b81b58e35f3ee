// What GGUF files call a model's tensors, whatever its family. Immutable tables.
#pragma once

#include "services/model/checkpoint.h"
#include "services/model/model_config.h"
#include "services/model/tensor_names.h"

namespace sluice {

// The table for a model's files: projections may be fused (Phi-3, GPT-2, GPT-NeoX), and rows of q
// and k reordered, as llama.cpp's converter leaves them in families that it rotates in neighbouring
// pairs.
const TensorNames& GgufTensorNames(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace sluice
