#include "services/model/weight_rule.h"

#include "kernels/check.h"
#include "services/model/shard_plan.h"

namespace sluice {
namespace {

// Inputs of a projection that are added up in one run.
int64_t RunOf(LayerTensor tensor, const ModelConfig& config) {
  const auto plan = MakeShardPlan(config, {});
  SLUICE_CHECK(plan.ok());  // one rank is always accepted
  if (tensor == LayerTensor::kO) return plan->o_proj.width;
  if (tensor == LayerTensor::kDown) return plan->down_proj.width;
  return ShapeOf(tensor, config).columns;
}

WeightFormat InGroups(WeightFormat wanted, int64_t run) {
  return run % TraitsOf(wanted).group != 0 ? WeightFormat::kBF16 : wanted;
}

bool IsPublished(const ModelConfig& config) {
  return config.quantization.has_value() && config.quantization->published;
}

}  // namespace

WeightFormat FormatOf(LayerTensor tensor, const ModelConfig& config, WeightFormat wanted) {
  if (ShapeOf(tensor, config).columns == 1) return WeightFormat::kF32;  // a norm or a bias
  return InGroups(wanted, RunOf(tensor, config));
}

WeightFormat FormatOf(ModelTensor tensor, const ModelConfig& config, WeightFormat wanted) {
  switch (tensor) {
    case ModelTensor::kFinalNorm:
    case ModelTensor::kFinalNormBias:
      return WeightFormat::kF32;
    case ModelTensor::kEmbedding:
    case ModelTensor::kPositions:
      return IsQuantized(wanted) ? WeightFormat::kBF16 : wanted;
    case ModelTensor::kHead:
      if (wanted == WeightFormat::kFp8 && IsPublished(config)) return WeightFormat::kBF16;
      return InGroups(TraitsOf(wanted).head, config.hidden_size);
  }
  SLUICE_CHECK(false);
  return {};
}

}  // namespace sluice
