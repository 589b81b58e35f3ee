// The backend of GPUs: kernels/backend.h over a Gpu (kernels/cuda/gpu.h). Activations that products
// read are BF16; everything else is as the contract words it.
//
// A row's bits depend neither on the batch nor on which blocks of threads compute it: see
// kernels/cuda/DESIGN.md.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/gpu.h"

namespace sluice::cuda {

class CudaBackend final : public CudaDevice {
 public:
  // RESOURCE_EXHAUSTED where the host or the device lacks memory.
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(std::unique_ptr<Gpu> gpu,
                                                             CudaBackendOptions options = {});

  void ReserveForGemm(const PackedMatrix& weights, int64_t max_rows) override;
  void ReserveForAttention(const KvPool& pool, int64_t max_rows) override {}
  void GatherRows(MatrixView table, absl::Span<const int32_t> rows, MatrixView out) override;
  absl::Status GatherElements(MatrixView x, absl::Span<const MatrixElement> elements,
                              absl::Span<float> values) override;
  void RmsNorm(MatrixView x, const float* weight, float eps, MatrixView out) override;
  void LayerNorm(MatrixView x, const float* weight, const float* bias, float eps,
                 MatrixView out) override;
  using Ops::Gemm;
  void Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out,
            const GemmEpilogue& epilogue) override;
  void ApplyQkNormRopeAndStoreKv(MatrixView qkv, const QkNormRopeParams& params, int layer,
                                 KvPool& pool) override;
  void CopyBlocks(absl::Span<const KvBlockCopy> copies, KvPool& pool) override;
  void PagedAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                      MatrixView out) override;
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

 private:
  CudaBackend(CudaDeviceParts parts, CudaBackendOptions options);

  void Elementwise(const ElementwiseTask& task) { kernels().elementwise(stream(), task); }
  // LayerNorm of every head of x by itself, in place; nothing without weights.
  void CentreHeads(MatrixView x, const QkNormRopeParams& params, const float* weight,
                   const float* bias);
  // Enqueues `task`, whose place in the step and the pool is filled in.
  void Store(StoreKvTask task, int layer, const KvPool& pool);
  GemmPlan PlanFor(const WeightImage& weights, int64_t rows) const;
  void TiledGemm(MatrixView x, const WeightImage& weights, const EpilogueTask& epilogue);
  // Enqueues the plan's tiles and merges, of each kind as its task says.
  void Attend(AttentionTask decode, AttentionTask prefill, const DeviceAttentionPlan& plan);
  struct GemmOperand {
    MatrixView x;
    float* scales = nullptr;  // of pairs of FP8 numbers
  };
  // x as tiles are read from it: itself, or rounded and padded in scratch memory; no x where there
  // is no memory.
  GemmOperand Operand(MatrixView x, const WeightImage& weights, const GemmPlan& plan);
};

}  // namespace sluice::cuda
