// ShardModel's mixtures of experts.
#include "kernels/expert_ops.h"
#include "kernels/recurrent_ops.h"
#include "services/shard/shard_model.h"

namespace sluice {
namespace {

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
  const absl::StatusOr<Routing> routing = RouteRows(mlp, step.input, step);
  if (!routing.ok()) return routing.status();
  return SumExperts(mlp, *routing, step.input, step,
                    [&](LastProduct product, const AfterProduct* after) {
                      return AddToResidual(product, after, /*bias=*/nullptr, end, step);
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
  absl::Status made = Multiply(
      step.input, *mlp.beside.gate_up, spec.gated ? TensorRole::kGate : TensorRole::kUp, activated,
      {.bias = mlp.beside.gate_up_bias.data_or_null(), .activation = spec.activation}, step);
  if (!made.ok()) return made;
  made = SumProduct(activated, *mlp.beside.down, TensorRole::kDown, mlp.beside.down_bias,
                    views.branch, step);
  if (!made.ok()) return made;
  norm(views.branch, mlp.beside_post_norm, views.branch);
  norm(step.hidden, mlp.router_norm, views.normed);
  const absl::StatusOr<Routing> routing = RouteRows(mlp, views.normed, step);
  if (!routing.ok()) return routing.status();
  norm(step.hidden, mlp.mixture_norm, views.normed);
  const MatrixView second = views.second_branch;
  made = SumExperts(mlp, *routing, views.normed, step,
                    [&](LastProduct product, const AfterProduct* after) {
                      return SumBranch(product, after, /*bias=*/nullptr, second, step);
                    });
  if (!made.ok()) return made;
  norm(second, mlp.mixture_post_norm, second);
  backend_.AddResidual(second, views.branch);
  EndBranch(end, step);
  return absl::OkStatus();
}

absl::StatusOr<Routing> ShardModel::RouteRows(const MixtureWeights& mlp, MatrixView input,
                                              const Step& step) {
  const RouterSpec& router = mlp.spec.router;
  const MatrixView outputs = Narrowed(step.views.router_outputs, router.num_experts);
  const Routing routing =
      Routing::In(step.views.routing.data, outputs.rows, router.num_experts, router.num_chosen);
  const absl::Status made = Multiply(input, *mlp.router, TensorRole::kRouter, outputs,
                                     {.bias = mlp.router_bias.data_or_null()}, step);
  if (!made.ok()) return made;
  backend_.experts()->Route(outputs, ParamsOf(mlp), routing);
  return routing;
}

absl::StatusOr<SharedExpert> ShardModel::RunSharedExpert(const MixtureWeights& mlp,
                                                         const Step& step) {
  const StepViews& views = step.views;
  const DenseMlpSpec& expert = mlp.spec.expert;
  SharedExpert shared{.x = Narrowed(views.shared_activated,
                                    plan_.MlpOf(mlp.spec, mlp.spec.shared_width).columns.size()),
                      .down = mlp.shared_down.get()};
  absl::Status made =
      Multiply(step.input, *mlp.shared_gate_up,
               expert.gated ? TensorRole::kSharedGate : TensorRole::kSharedUp, shared.x,
               {.activation = expert.activation, .clamp = expert.clamp}, step);
  if (!made.ok()) return made;
  if (expert.squared) backend_.recurrence()->Square(shared.x);
  if (mlp.shared_score != nullptr) {
    made = Multiply(step.input, *mlp.shared_score, TensorRole::kSharedScore, views.shared_scores,
                    {}, step);
    if (!made.ok()) return made;
    shared.scores = views.shared_scores.Row(0);
  }
  return shared;
}

}  // namespace sluice
