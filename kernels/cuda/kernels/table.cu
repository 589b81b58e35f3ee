#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/attention_shape.h"
#include "kernels/cuda/kernels/launchers.h"
#include "kernels/cuda/kernels/table.h"

namespace sluice::cuda::SIMT_NAMESPACE {

const Kernels& KernelTable() {
  static const Kernels kernels = {.norm = Norm,
                                  .rope = Rope,
                                  .elementwise = Elementwise,
                                  .tree_add = TreeAdd,
                                  .sum_to_residual = SumToResidual,
                                  .rearrange = Rearrange,
                                  .gather_rows = GatherRows,
                                  .gather_elements = GatherElements,
                                  .log_softmax = LogSoftmax,
                                  .top_k = TopK,
                                  .sample = Sample,
                                  .pack = Pack,
                                  .gemm = Gemm,
                                  .float_gemm = FloatGemm,
                                  .store_kv = StoreKv,
                                  .copy_blocks = CopyBlocks,
                                  .attention = Attention,
                                  .attention_shared_bytes = SharedBytesOf,
                                  .merge_splits = MergeSplits};
  return kernels;
}

void Gemm(Stream stream, const GemmTask& task) {
  const bool on_hopper = task.plan.path == GemmPath::kHopper;
  switch (task.weights.format) {
    case WeightFormat::kInt8:
      return GemmInt8(stream, task);
    case WeightFormat::kInt4:
      return GemmInt4(stream, task);
    case WeightFormat::kFp8:
      return on_hopper ? GemmFp8OnHopper(stream, task) : GemmFp8(stream, task);
    default:
      return on_hopper ? GemmBFloat16OnHopper(stream, task) : GemmBFloat16(stream, task);
  }
}

void Attention(Stream stream, const AttentionTask& task) {
  switch (task.pool.dtype) {
    case DType::kF32:
      return AttentionFloat(stream, task);
    case DType::kF8E4M3:
      return AttentionFp8(stream, task);
    default:
      return AttentionBFloat16(stream, task);
  }
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
