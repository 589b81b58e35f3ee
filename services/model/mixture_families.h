// Families of mixtures of experts: how config.json maps onto a MixtureSpec for each layer, and what
// their tensors are called. Rows of the table in model_families.cc.
#pragma once

#include "services/model/json_fields.h"
#include "services/model/model_config.h"
#include "services/model/tensor_names.h"

namespace sluice {

extern const TensorNames kMixtralNames;
extern const TensorNames kQwenMoeNames;
extern const TensorNames kErnieMoeNames;
extern const TensorNames kGptOssNames;
extern const TensorNames kDeepseekMoeNames;

void MapMixtral(JsonFields& fields, ModelConfig& config);
void MapQwen2Moe(JsonFields& fields, ModelConfig& config);
void MapQwen3Moe(JsonFields& fields, ModelConfig& config);
void MapErnieMoe(JsonFields& fields, ModelConfig& config);
void MapGlm4Moe(JsonFields& fields, ModelConfig& config);
void MapGptOss(JsonFields& fields, ModelConfig& config);

// The mixture that DeepSeek-V2, V3 and families after them describe: groups, a bias of the choice, a
// factor, shared experts and dense first layers. Replaces the dense MLP of the layers that have one.
// REQUIRES: SetLayers.
void MapDeepseekMixtures(JsonFields& fields, ModelConfig& config);

}  // namespace sluice
