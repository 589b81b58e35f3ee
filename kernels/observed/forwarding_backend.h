// A backend that hands every operation on to another: to be derived from by what spoils one of
// them, or does them at another time. Each is handed on as a piece of work that borrows nothing of
// its caller's, since spans are copied aside. Driven by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "kernels/backend.h"
#include "kernels/expert_ops.h"
#include "kernels/latent_ops.h"
#include "kernels/recurrent_ops.h"

namespace sluice {

class ForwardingBackend : public Backend, public RecurrentOps, private LatentOps {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> within);
  ~ForwardingBackend() override;

  std::string_view name() const override;
  DType operand_dtype() const override;
  std::optional<DeviceMemory> memory() const override;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size_bytes) override;
  void CopyIn(absl::Span<const std::byte> host, void* device) override;
  absl::Status CopyOut(const void* device, absl::Span<std::byte> host) override;
  absl::Status Synchronize(Deadline deadline) override;
  absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const PackSpec& spec,
                                                     const RowReader& read) override;
  absl::StatusOr<std::unique_ptr<KvPool>> NewKvPool(const KvPoolSpec& spec) override;
  void ReserveForGemm(const PackedMatrix& weights, int64_t max_rows) override;
  void ReserveForAttention(const KvPool& pool, int64_t max_rows) override;
  absl::StatusOr<std::unique_ptr<RankGroup>> NewRankGroup(const RankGroupSpec& spec) override;
  LatentOps* latents() override { return within_->latents() == nullptr ? nullptr : this; }
  int64_t BucketRows(int64_t rows) const override;
  void BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) override;
  absl::Status RunStep(const StepKey& key, absl::FunctionRef<absl::Status()> enqueue) override;

  void GatherRows(MatrixView table, absl::Span<const int32_t> rows, MatrixView out) override;
  absl::Status GatherElements(MatrixView x, absl::Span<const MatrixElement> elements,
                              absl::Span<float> values) override;
  void RmsNorm(MatrixView x, const float* weight, float eps, MatrixView out) override;
  void LayerNorm(MatrixView x, const float* weight, const float* bias, float eps,
                 MatrixView out) override;
  void Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out,
            const GemmEpilogue& epilogue) override;
  void ApplyQkNormRopeAndStoreKv(MatrixView qkv, const QkNormRopeParams& turn, int layer,
                                 KvPool& pool) override;
  void CopyBlocks(absl::Span<const KvBlockCopy> copies, KvPool& pool) override;
  void PagedAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                      MatrixView out) override;
  ExpertOps* experts() override { return experts_.get(); }
  void Scale(float factor, MatrixView x) override;
  void ScaleRows(const float* factors, MatrixView x) override;
  void SoftCap(float cap, MatrixView x) override;
  void SumSquares(MatrixView x, int num_slices, MatrixView out) override;
  void RmsNormOfPart(MatrixView x, MatrixView squares, int64_t count, const float* weight,
                     float eps) override;
  void AddResidual(MatrixView x, MatrixView residual) override;
  void TreeAdd(absl::Span<const MatrixView> partials, MatrixView out) override;
  void TreeAddToResidual(absl::Span<const MatrixView> partials,
                         const ResidualUpdate& update) override;
  void LogSoftmax(MatrixView x, MatrixView out) override;
  absl::Status TopK(MatrixView x, int k, absl::Span<float> values,
                    absl::Span<int32_t> ids) override;
  absl::Status Sample(MatrixView logits, absl::Span<const SampleRow> rows,
                      absl::Span<SampledRow> results) override;

  bool has_recurrent_ops() const override { return RecurrentOpsOf(*within_) != nullptr; }
  absl::StatusOr<std::unique_ptr<StatePool>> NewStatePool(const StatePoolSpec& spec) override;
  void CopyStates(absl::Span<const KvBlockCopy> copies, StatePool& pool) override;
  void Recur(const RecurrenceInputs& inputs, const RecurrenceParams& params, int layer,
             StatePool& pool, MatrixView out) override;
  void BeginStates(absl::Span<const StateSegment> segments) override;
  void Square(MatrixView x) override;
  void GateBySigmoid(MatrixView gate, MatrixView x) override;
  void GroupRmsNorm(MatrixView x, const float* weight, float eps, int num_groups,
                    MatrixView out) override;

 protected:
  using Work = std::function<absl::Status()>;

  // Does the work, or sees to it that it is done by the time Synchronize() returns. The first
  // failure since the last call of that is its result.
  virtual void Enqueue(Work work);

  Backend& within() { return *within_; }

  void PrepareLatentAttention(MatrixView q, MatrixView kv, const LatentParams& params, int layer,
                              KvPool& pool, MatrixView queries) override;

 private:
  void GemmOfHeads(const HeadColumns& x, absl::Span<const PackedMatrix* const> weights,
                   const HeadColumns& out) override;
  void ReserveForGemmOfHeads(absl::Span<const PackedMatrix* const> weights,
                             int64_t max_rows) override;

  // Enqueues operation() on the backend within.
  template <class Operation>
  void Forward(Operation operation);
  // Enqueues `work` and waits for it.
  absl::Status Await(Work work);

  class Experts;

  const std::unique_ptr<Backend> within_;
  const std::unique_ptr<ExpertOps> experts_;  // null where the backend within has none
  absl::Status failure_;
};

}  // namespace sluice
