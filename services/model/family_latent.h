// Families with latent attention: how their config.json maps onto ModelConfig, and what their
// tensors are called. Their mixtures of experts are in family_latent.cc, too.
#pragma once

#include "services/model/json_fields.h"
#include "services/model/model_config.h"
#include "services/model/tensor_names.h"

namespace sluice {

extern const TensorNames kDeepSeekNames;

// ModelFamily::map of deepseek_v2; of deepseek_v3 and kimi_k2; of glm4_moe_lite. They differ in
// what absent fields mean.
void MapDeepSeekV2(JsonFields& fields, ModelConfig& config);
void MapDeepSeekV3(JsonFields& fields, ModelConfig& config);
void MapGlm4MoeLite(JsonFields& fields, ModelConfig& config);

}  // namespace sluice
