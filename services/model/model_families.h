// The families of models that load: one row for each Hugging Face `model_type`, saying how its
// config.json maps onto ModelConfig and what its tensors are called. Immutable tables.
#pragma once

#include <array>
#include <string>

#include "services/model/json_fields.h"
#include "services/model/model_config.h"
#include "services/model/weights.h"

namespace sluice {

// Names as the files have them; "$0" in a layer's stands for its index. The head's tensor in a
// model with tied embeddings is the embedding's, which some files store under the head's name.
struct TensorNames {
  std::array<const char*, kNumLayerTensors> layer;  // by LayerTensor
  std::array<const char*, kNumModelTensors> model;  // by ModelTensor
};

struct ModelFamily {
  const char* model_type;
  // Fills in everything but model_type and the generation fields; errors go to `fields`.
  void (*map)(JsonFields& fields, ModelConfig& config);
  const TensorNames* names;
};

// nullptr where no family has that model_type.
const ModelFamily* FindModelFamily(const std::string& model_type);

// "llama, ..."
std::string KnownModelTypes();

}  // namespace sluice
