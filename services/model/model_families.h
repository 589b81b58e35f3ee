// The families of models that load: one row for each Hugging Face `model_type`, saying how its
// config.json maps onto ModelConfig and what its tensors are called. Immutable tables.
#pragma once

#include <string>

#include "services/model/json_fields.h"
#include "services/model/model_config.h"
#include "services/model/rope_fields.h"
#include "services/model/tensor_names.h"

namespace sluice {

struct ModelFamily {
  const char* model_type;
  // Fills in everything but model_type, the generation fields and what MapRope reads, for which it
  // calls AddRope; errors go to `fields`.
  void (*map)(JsonFields& fields, ModelConfig& config);
  const TensorNames* names;
  RopeDefaults rope;
  // An object of JSON: the values of fields that files of this family leave out; null: none.
  const char* defaults = nullptr;
};

// nullptr where no family has that model_type.
const ModelFamily* FindModelFamily(const std::string& model_type);

// "llama, ..."
std::string KnownModelTypes();

}  // namespace sluice
