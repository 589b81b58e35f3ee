#include "services/model/weight_rule.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "kernels/check.h"
#include "services/model/shard_plan.h"

namespace sluice {
namespace {

// Inputs of a projection that are added up in one run.
int64_t RunOf(TensorId tensor, const ModelConfig& config) {
  if (tensor.role == TensorRole::kDown || tensor.role == TensorRole::kSharedDown) {
    return MlpPartOf(tensor, config, ShardPlan{}).down_proj.width;
  }
  const bool is_recurrent = tensor.role == TensorRole::kRecurrentOut;
  const bool is_o = tensor.role == TensorRole::kO || tensor.role == TensorRole::kCrossO;
  if (!is_o && !is_recurrent) return ShapeOf(tensor, config).columns;
  const auto plan = MakeShardPlan(config, {});
  SLUICE_CHECK(plan.ok());  // one rank is always accepted
  if (is_recurrent) return plan->recurrent_out.width;
  return ShapeOf(tensor, config).columns / plan->o_proj.num_slices;
}

WeightFormat InGroups(WeightFormat wanted, int64_t run) {
  while (run % TraitsOf(wanted).group != 0) wanted = TraitsOf(wanted).ungrouped;
  return wanted;
}

// Whether others wrote the files, and their weights are kept as they are.
bool IsAsPublished(const ModelConfig& config, WeightFormat wanted) {
  return config.quantization.has_value() && config.quantization->published &&
         config.quantization->format == wanted;
}

// The format of a matrix that is none of the rule.
std::optional<WeightFormat> ExceptionFor(TensorId tensor, const Quantization& quantization) {
  const auto& exceptions = quantization.exceptions;
  const auto found = std::ranges::lower_bound(exceptions, tensor, std::less<TensorId>(),
                                              &Quantization::Exception::tensor);
  if (found == exceptions.end() || found->tensor != tensor) return std::nullopt;
  return found->format;
}

}  // namespace

WeightFormat FormatOf(TensorId tensor, const ModelConfig& config, WeightFormat wanted) {
  const bool as_published = IsAsPublished(config, wanted);
  if (as_published) {
    const auto exception = ExceptionFor(tensor, *config.quantization);
    if (exception.has_value()) return *exception;
  }
  switch (tensor.role) {
    case TensorRole::kEmbedding:
    case TensorRole::kPositions:
    case TensorRole::kSourcePositions:
    case TensorRole::kTokenTypes:
    case TensorRole::kSideEmbedding:
      return IsQuantized(wanted) ? WeightFormat::kBF16 : wanted;
    case TensorRole::kRelativeBias:
    case TensorRole::kQNorm:  // a matrix where every head has weights of its own
    case TensorRole::kKNorm:
      return WeightFormat::kF32;
    case TensorRole::kHead:
      if (as_published && IsQuantized(wanted)) return WeightFormat::kBF16;
      return InGroups(TraitsOf(wanted).head, config.hidden_size);
    case TensorRole::kKvB:
      return IsQuantized(wanted) ? WeightFormat::kBF16 : wanted;
    case TensorRole::kRouter:
    case TensorRole::kSharedScore:
    case TensorRole::kConvQ:
    case TensorRole::kConvK:
    case TensorRole::kConvV:
    case TensorRole::kBeta:
      return WeightFormat::kF32;
    case TensorRole::kDecay:
      // Of kStateSpace it is part of one tensor with all other projections.
      if (config.recurrent()->kind == RecurrenceKind::kGatedDelta) return WeightFormat::kF32;
      return InGroups(wanted, RunOf(tensor, config));
    default:
      if (ShapeOf(tensor, config).columns == 1) return WeightFormat::kF32;  // a norm or a bias
      return InGroups(wanted, RunOf(tensor, config));
  }
}

}  // namespace sluice
