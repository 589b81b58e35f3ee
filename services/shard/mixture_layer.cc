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
          .expert_factors = mlp.expert_factors.data_or_null(),
          .num_groups = router.num_groups,
          .num_kept_groups = router.num_kept_groups,
          .num_best_of_group = router.num_best_of_group,
          .normalised = router.normalised,
          .least_sum = router.least_sum,
          .factor = router.factor};
}

}  // namespace

absl::Status ShardModel::RunMlp(const MixtureWeights& mlp, const BranchEnd& end, const Step& step) {
  if (mlp.spec.beside.has_value()) return RunMlpBesideExperts(mlp, end, step);
  const Routing routing = RouteRows(mlp, step.input, step);
  return SumExperts(mlp, routing, step.input, step, [&](LastProduct product) {
    return AddToResidual(product, /*bias=*/nullptr, end, step);
  });
}

absl::Status ShardModel::RunMlpBesideExperts(const MixtureWeights& mlp, const BranchEnd& end,
                                             const Step& step) {
  const StepViews& views = step.views;
  const DenseMlpSpec& spec = mlp.beside.spec;
  const auto norm = [&](MatrixView x, const FloatVector& weight, MatrixView out) {
    backend_.RmsNorm(x, weight.data(), config_.norm_eps, out);
  };
  const MatrixView activated = views.activated.Columns(0, plan_.MlpOf(spec.width).columns.size());
  backend_.Gemm(step.input, *mlp.beside.gate_up, activated,
                {.bias = mlp.beside.gate_up_bias.data_or_null(), .activation = spec.activation});
  const auto down = [&](MatrixView out, const float* bias, bool add_to_out) {
    backend_.Gemm(activated, *mlp.beside.down, out, {.bias = bias, .add_to_out = add_to_out});
  };
  const float* const bias = mlp.beside.down_bias.data_or_null();
  if (absl::Status sent = SumBranch(down, bias, views.branch, step); !sent.ok()) return sent;
  norm(views.branch, mlp.beside_post_norm, views.branch);
  norm(step.hidden, mlp.router_norm, views.normed);
  const Routing routing = RouteRows(mlp, views.normed, step);
  norm(step.hidden, mlp.mixture_norm, views.normed);
  const MatrixView second = views.second_branch;
  const absl::Status sent = SumExperts(mlp, routing, views.normed, step, [&](LastProduct product) {
    return SumBranch(product, /*bias=*/nullptr, second, step);
  });
  if (!sent.ok()) return sent;
  norm(second, mlp.mixture_post_norm, second);
  backend_.AddResidual(second, views.branch);
  EndBranch(end, step);
  return absl::OkStatus();
}

Routing ShardModel::RouteRows(const MixtureWeights& mlp, MatrixView input, const Step& step) {
  const RouterSpec& router = mlp.spec.router;
  const MatrixView outputs = Narrowed(step.views.router_outputs, router.num_experts);
  const Routing routing =
      Routing::In(step.views.routing.data, outputs.rows, router.num_experts, router.num_chosen);
  backend_.Gemm(input, *mlp.router, outputs, {.bias = mlp.router_bias.data_or_null()});
  backend_.experts()->Route(outputs, ParamsOf(mlp), routing);
  return routing;
}

absl::Status ShardModel::SumExperts(const MixtureWeights& mlp, const Routing& routing,
                                    MatrixView input, const Step& step,
                                    absl::FunctionRef<absl::Status(LastProduct)> sum) {
  const DenseMlpSpec& expert = mlp.spec.expert;
  ExpertOps& experts = *backend_.experts();
  const MatrixView activated = RowsOfExperts(step.views.expert_activated, routing.num_chosen,
                                             plan_.MlpOf(mlp.spec, expert.width).columns.size());
  experts.GroupedGemm(input, *mlp.gate_up, routing,
                      {.bias = mlp.gate_up_bias.data_or_null(),
                       .activation = expert.activation,
                       .clamp = expert.clamp,
                       .weighs_inputs = mlp.spec.weighs_inputs},
                      activated);
  if (expert.squared) RecurrentOpsOf(backend_)->Square(activated);
  CombineOptions combine{.weighted = !mlp.spec.weighs_inputs, .bias = mlp.down_bias.data_or_null()};
  if (mlp.shared_down != nullptr) combine.shared = RunSharedExpert(mlp, step);
  return sum([&](MatrixView out, const float* /*bias*/, bool add_to_out) {
    combine.add_to_out = add_to_out;
    experts.CombineExperts(activated, *mlp.down, routing, combine, out);
  });
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
