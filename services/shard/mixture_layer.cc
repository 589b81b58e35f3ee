// ShardModel's mixtures of experts.
#include "kernels/expert_ops.h"
#include "kernels/recurrent_ops.h"
#include "services/shard/shard_model.h"

namespace sluice {
namespace {

// `memory` as k rows of an expert for each row of a step.
MatrixView RowsOfExperts(MatrixView memory, int num_chosen, int64_t width) {
  return {memory.data, memory.dtype, memory.rows * num_chosen, width, width};
}

// `columns` of `memory`, without gaps.
MatrixView Narrowed(MatrixView memory, int64_t columns) {
  return {memory.data, memory.dtype, memory.rows, columns, columns};
}

RouteParams ParamsOf(const MixtureWeights& mlp) {
  const RouterSpec& router = mlp.spec.router;
  return {.scores = router.scores,
          .num_chosen = router.num_chosen,
          .choice_bias = mlp.choice_bias.data_or_null(),
          .num_groups = router.num_groups,
          .num_kept_groups = router.num_kept_groups,
          .num_best_of_group = router.num_best_of_group,
          .normalised = router.normalised,
          .least_sum = router.least_sum,
          .factor = router.factor};
}

}  // namespace

absl::Status ShardModel::RunMlp(const MixtureWeights& mlp, const BranchEnd& end, const Step& step) {
  const StepViews& views = step.views;
  const RouterSpec& router = mlp.spec.router;
  const DenseMlpSpec& expert = mlp.spec.expert;
  ExpertOps& experts = *backend_.experts();
  const MatrixView outputs = Narrowed(views.router_outputs, router.num_experts);
  const Routing routing =
      Routing::In(views.routing.data, outputs.rows, router.num_experts, router.num_chosen);
  backend_.Gemm(step.input, *mlp.router, outputs, {.bias = mlp.router_bias.data_or_null()});
  experts.Route(outputs, ParamsOf(mlp), routing);
  const MatrixView activated = RowsOfExperts(views.expert_activated, router.num_chosen,
                                             plan_.MlpOf(mlp.spec, expert.width).columns.size());
  experts.GroupedGemm(step.input, *mlp.gate_up, routing,
                      {.bias = mlp.gate_up_bias.data_or_null(),
                       .activation = expert.activation,
                       .clamp = expert.clamp,
                       .weighs_inputs = mlp.spec.weighs_inputs},
                      activated);
  if (expert.squared) RecurrentOpsOf(backend_)->Square(activated);
  CombineOptions combine{.weighted = !mlp.spec.weighs_inputs, .bias = mlp.down_bias.data_or_null()};
  if (mlp.shared_down != nullptr) combine.shared = RunSharedExpert(mlp, step);
  const auto product = [&](MatrixView out, const float* /*bias*/, bool add_to_out) {
    combine.add_to_out = add_to_out;
    experts.CombineExperts(activated, *mlp.down, routing, combine, out);
  };
  return AddToResidual(product, /*bias=*/nullptr, end, step);
}

SharedExpert ShardModel::RunSharedExpert(const MixtureWeights& mlp, const Step& step) {
  const StepViews& views = step.views;
  const DenseMlpSpec& expert = mlp.spec.expert;
  SharedExpert shared{.x = Narrowed(views.shared_activated,
                                    plan_.MlpOf(mlp.spec, mlp.spec.shared_width).columns.size()),
                      .down = mlp.shared_down.get()};
  backend_.Gemm(step.input, *mlp.shared_gate_up, shared.x,
                {.activation = expert.activation, .clamp = expert.clamp});
  if (expert.squared) RecurrentOpsOf(backend_)->Square(shared.x);
  if (mlp.shared_score != nullptr) {
    backend_.Gemm(step.input, *mlp.shared_score, views.shared_scores);
    shared.scores = views.shared_scores.Row(0);
  }
  return shared;
}

}  // namespace sluice
