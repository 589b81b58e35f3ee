// A backend that hands every operation on to another: to be derived from by what spoils one of
// them, or does them at another time. It has the parts of the other one that
// kernels/observed/forwarding_parts.h lists. Driven by one thread at a time.
#pragma once

#include <memory>

#include "kernels/observed/forwarding_device.h"

namespace sluice {

class ForwardingBackend : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

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
};

}  // namespace sluice
