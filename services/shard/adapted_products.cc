// ShardModel's products with what adapters add to them.
#include "kernels/adapter_ops.h"
#include "kernels/latent_ops.h"
#include "services/shard/shard_model.h"

namespace sluice {

absl::Status ShardModel::Multiply(MatrixView x, const PackedMatrix& weights, TensorRole first,
                                  MatrixView out, const GemmEpilogue& epilogue, const Step& step) {
  const FactorsBySlot factors = adapters_->Of({first, step.layer});
  if (factors.empty()) {
    backend_.Gemm(x, weights, out, epilogue);
    return absl::OkStatus();
  }
  AdapterOps& ops = adapters_->ops();
  const absl::Span<const int32_t> slots = adapters_->slots_of_rows();
  const MatrixView sums = adapters_->Sums(x.rows, factors);
  ops.SumAdapterInputs(x, slots, factors, sums);
  if (!epilogue.activation.has_value()) {
    backend_.Gemm(x, weights, out, epilogue);
    ops.AddAdapterOutputs(sums, slots, factors, /*scores=*/nullptr, out);
    return absl::OkStatus();
  }
  const auto addends = adapters_->Addends(x.rows, weights.num_outputs());
  if (!addends.ok()) return addends.status();
  ops.WriteAddends(sums, slots, factors, addends->values, addends->rows);
  ops.GemmWithAddends(x, weights, out, epilogue,
                      {.values = addends->values, .rows = addends->rows});
  return absl::OkStatus();
}

absl::Status ShardModel::SumProduct(MatrixView x, const PackedMatrix& weights, TensorRole role,
                                    const FloatVector& bias, MatrixView branch, const Step& step) {
  return WithProduct(x, weights, role, step, [&](LastProduct product, const AfterProduct* after) {
    return SumBranch(product, after, bias.data_or_null(), branch, step);
  });
}

absl::Status ShardModel::WithProduct(
    MatrixView x, const PackedMatrix& weights, TensorRole role, const Step& step,
    absl::FunctionRef<absl::Status(LastProduct, const AfterProduct*)> use) {
  const auto product = [&](MatrixView out, const float* bias, bool add_to_out) {
    backend_.Gemm(x, weights, out, {.bias = bias, .add_to_out = add_to_out});
  };
  const FactorsBySlot factors = adapters_->Of({role, step.layer});
  if (factors.empty()) return use(product, nullptr);
  const MatrixView partial = adapters_->PartialSums(x.rows);
  adapters_->ops().SumAdapterInputs(x, adapters_->slots_of_rows(), factors, partial);
  const absl::StatusOr<MatrixView> sums = adapters_->JoinSums(partial);
  if (!sums.ok()) return sums.status();
  const auto add = [&](MatrixView out) {
    adapters_->ops().AddAdapterOutputs(*sums, adapters_->slots_of_rows(), factors,
                                       /*scores=*/nullptr, out);
  };
  const AfterProduct after = add;
  return use(product, &after);
}

void ShardModel::AddToHeads(const HeadColumns& x, int parity, int64_t num_inputs,
                            const HeadColumns& out, int64_t num_outputs, const Step& step) {
  AdapterOps& ops = adapters_->ops();
  for (int head = 0; head < plan_.heads.size(); ++head) {
    const FactorsBySlot factors = adapters_->Of({TensorRole::kKvB, step.layer, 2 * head + parity});
    if (factors.empty()) return;
    const MatrixView sums = adapters_->Sums(x.all.rows, factors);
    ops.SumAdapterInputs(x.Of(head, num_inputs), adapters_->slots_of_rows(), factors, sums);
    ops.AddAdapterOutputs(sums, adapters_->slots_of_rows(), factors, /*scores=*/nullptr,
                          out.Of(head, num_outputs));
  }
}

absl::StatusOr<SumAddends> ShardModel::ExpertAddends(const MixtureWeights& mlp,
                                                     const Routing& routing, MatrixView input,
                                                     const Step& step) {
  const TensorRole first = mlp.spec.expert.gated ? TensorRole::kGate : TensorRole::kUp;
  const FactorsBySlot factors =
      adapters_->OfExperts({first, step.layer}, mlp.spec.router.num_experts);
  if (factors.empty()) return SumAddends();
  AdapterOps& ops = adapters_->ops();
  const absl::Span<const int32_t> slots = adapters_->slots_of_rows();
  const int64_t rows = input.rows * routing.num_chosen;
  const MatrixView sums = adapters_->Sums(rows, factors);
  ops.SumExpertInputs(input, routing, slots, factors, {.weighted = mlp.spec.weighs_inputs}, sums);
  const auto addends = adapters_->Addends(rows, mlp.gate_up->Of(0).num_outputs());
  if (!addends.ok()) return addends.status();
  ops.WriteExpertAddends(sums, routing, slots, factors, addends->values, addends->rows);
  return SumAddends{.values = addends->values, .rows = addends->rows};
}

absl::Status ShardModel::SumWithAdapters(const MixtureWeights& mlp, const Routing& routing,
                                         MatrixView activated, const SharedExpert* shared,
                                         LastProduct product, SumOfExperts sum, const Step& step) {
  AdapterOps& ops = adapters_->ops();
  const absl::Span<const int32_t> slots = adapters_->slots_of_rows();
  const TensorId down{TensorRole::kDown, step.layer},
      of_shared{TensorRole::kSharedDown, step.layer};
  const int num_experts = mlp.spec.router.num_experts;
  const bool has_experts = !adapters_->OfExperts(down, num_experts).empty();
  const bool has_shared = shared != nullptr && !adapters_->Of(of_shared).empty();
  if (!has_experts && !has_shared) return sum(product, nullptr);
  // The shared expert's sums are made last, as the others' have the same memory.
  const auto add = [&](MatrixView out) -> absl::Status {
    if (has_experts) {
      const MatrixView partial = adapters_->PartialSums(activated.rows);
      const FactorsBySlot factors = adapters_->OfExperts(down, num_experts);
      // Weighed once the ranks' sums are joined, so that one rank rounds as several do.
      ops.SumExpertInputs(activated, routing, slots, factors, {.is_grouped = true}, partial);
      const absl::StatusOr<MatrixView> sums = adapters_->JoinSums(partial);
      if (!sums.ok()) return sums.status();
      ops.AddExpertOutputs(*sums, routing, slots, factors, !mlp.spec.weighs_inputs, out);
    }
    if (!has_shared) return absl::OkStatus();
    const MatrixView partial = adapters_->PartialSums(out.rows);
    const FactorsBySlot factors = adapters_->Of(of_shared);
    ops.SumAdapterInputs(shared->x, slots, factors, partial);
    const absl::StatusOr<MatrixView> sums = adapters_->JoinSums(partial);
    if (!sums.ok()) return sums.status();
    ops.AddAdapterOutputs(*sums, slots, factors, shared->scores, out);
    return absl::OkStatus();
  };
  absl::Status added;
  const auto add_once = [&](MatrixView out) { added = add(out); };
  const AfterProduct after = add_once;
  absl::Status sent = sum(product, &after);
  sent.Update(added);
  return sent;
}

absl::Status ShardModel::SumExperts(const MixtureWeights& mlp, const Routing& routing,
                                    MatrixView input, const Step& step, SumOfExperts sum) {
  const DenseMlpSpec& expert = mlp.spec.expert;
  ExpertOps& experts = *backend_.experts();
  const int64_t width = plan_.MlpOf(mlp.spec, expert.width).columns.size();
  const MatrixView memory = step.views.expert_activated;
  const MatrixView activated{memory.data, memory.dtype, memory.rows * routing.num_chosen, width,
                             width};
  const absl::StatusOr<SumAddends> addends = ExpertAddends(mlp, routing, input, step);
  if (!addends.ok()) return addends.status();
  const GroupedOptions grouped{.bias = mlp.gate_up_bias.data_or_null(),
                               .activation = expert.activation,
                               .clamp = expert.clamp,
                               .weighs_inputs = mlp.spec.weighs_inputs};
  if (addends->empty()) {
    experts.GroupedGemm(input, *mlp.gate_up, routing, grouped, activated);
  } else {
    adapters_->ops().GroupedGemmWithAddends(input, *mlp.gate_up, routing, grouped, *addends,
                                            activated);
  }
  if (expert.squared) backend_.recurrence()->Square(activated);
  CombineOptions combine{.weighted = !mlp.spec.weighs_inputs, .bias = mlp.down_bias.data_or_null()};
  if (mlp.shared_down != nullptr) {
    absl::StatusOr<SharedExpert> shared = RunSharedExpert(mlp, step);
    if (!shared.ok()) return shared.status();
    combine.shared = *shared;
  }
  const auto product = [&](MatrixView out, const float* /*bias*/, bool add_to_out) {
    combine.add_to_out = add_to_out;
    experts.CombineExperts(activated, *mlp.down, routing, combine, out);
  };
  return SumWithAdapters(mlp, routing, activated,
                         combine.shared.has_value() ? &*combine.shared : nullptr, product, sum,
                         step);
}

}  // namespace sluice
