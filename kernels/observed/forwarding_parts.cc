#include "kernels/observed/forwarding_parts.h"

namespace sluice {
namespace {

class ForwardedExperts final : public ExpertOps {
 public:
  explicit ForwardedExperts(ForwardingDevice& device) : device_(device) {}

  void Route(MatrixView outputs, const RouteParams& params, const Routing& routing) override {
    device_.Forward([=, this] { within().Route(outputs, params, routing); });
  }
  void GroupedGemm(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                   const GroupedOptions& options, MatrixView out) override {
    device_.Forward(
        [=, this, &weights] { within().GroupedGemm(x, weights, routing, options, out); });
  }
  void CombineExperts(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                      const CombineOptions& options, MatrixView out) override {
    device_.Forward(
        [=, this, &weights] { within().CombineExperts(x, weights, routing, options, out); });
  }
  void ReserveForExperts(const ExpertMatrices& gate_up, const ExpertMatrices& down,
                         const PackedMatrix* shared, int num_chosen, int64_t max_rows) override {
    within().ReserveForExperts(gate_up, down, shared, num_chosen, max_rows);
  }

 private:
  ExpertOps& within() { return *device_.within().experts(); }

  ForwardingDevice& device_;
};

class ForwardedLatents final : public LatentOps {
 public:
  explicit ForwardedLatents(ForwardingDevice& device) : device_(device) {}

  void GemmOfHeads(const HeadColumns& x, absl::Span<const PackedMatrix* const> weights,
                   const HeadColumns& out) override {
    device_.Forward(
        [=, this, weights = CopyOf(weights)] { within().GemmOfHeads(x, weights, out); });
  }
  void ReserveForGemmOfHeads(absl::Span<const PackedMatrix* const> weights,
                             int64_t max_rows) override {
    within().ReserveForGemmOfHeads(weights, max_rows);
  }
  void PrepareLatentAttention(MatrixView q, MatrixView kv, const LatentParams& params, int layer,
                              KvPool& pool, MatrixView queries) override {
    const RopeTables rotations = *params.rotations;
    device_.Forward([=, this, &pool] {
      LatentParams owned = params;
      owned.rotations = &rotations;
      within().PrepareLatentAttention(q, kv, owned, layer, pool, queries);
    });
  }

 private:
  LatentOps& within() { return *device_.within().latents(); }

  ForwardingDevice& device_;
};

class ForwardedRecurrence final : public RecurrentOps {
 public:
  explicit ForwardedRecurrence(ForwardingDevice& device) : device_(device) {}

  absl::StatusOr<std::unique_ptr<StatePool>> NewStatePool(const StatePoolSpec& spec) override {
    return within().NewStatePool(spec);
  }
  void CopyStates(absl::Span<const KvBlockCopy> copies, StatePool& pool) override {
    device_.Forward([this, copies = CopyOf(copies), &pool] { within().CopyStates(copies, pool); });
  }
  void BeginStates(absl::Span<const StateSegment> segments) override {
    device_.Forward([this, owned = std::make_shared<OwnStateSegments>(segments)] {
      within().BeginStates(owned->all());
    });
  }
  void Recur(const RecurrenceInputs& inputs, const RecurrenceParams& params, int layer,
             StatePool& pool, MatrixView out) override {
    device_.Forward([=, this, &pool] { within().Recur(inputs, params, layer, pool, out); });
  }
  void GateBySigmoid(MatrixView gate, MatrixView x) override {
    device_.Forward([=, this] { within().GateBySigmoid(gate, x); });
  }
  void Square(MatrixView x) override {
    device_.Forward([=, this] { within().Square(x); });
  }
  void GroupRmsNorm(MatrixView x, const float* weight, float eps, int num_groups,
                    MatrixView out) override {
    device_.Forward([=, this] { within().GroupRmsNorm(x, weight, eps, num_groups, out); });
  }

 private:
  RecurrentOps& within() { return *device_.within().recurrence(); }

  ForwardingDevice& device_;
};

}  // namespace

std::unique_ptr<ExpertOps> ForwardExperts(ForwardingDevice& device) {
  if (device.within().experts() == nullptr) return nullptr;
  return std::make_unique<ForwardedExperts>(device);
}

std::unique_ptr<LatentOps> ForwardLatents(ForwardingDevice& device) {
  if (device.within().latents() == nullptr) return nullptr;
  return std::make_unique<ForwardedLatents>(device);
}

std::unique_ptr<RecurrentOps> ForwardRecurrence(ForwardingDevice& device) {
  if (device.within().recurrence() == nullptr) return nullptr;
  return std::make_unique<ForwardedRecurrence>(device);
}

}  // namespace sluice
