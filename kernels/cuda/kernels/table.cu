#include "simt.h"

// After simt.h.
#include "kernels/check.h"
#include "kernels/cuda/attention_shape.h"
#include "kernels/cuda/kernels/launchers.h"
#include "kernels/cuda/kernels/table.h"

namespace sluice::cuda::SIMT_NAMESPACE {

const Kernels& KernelTable() {
  static const Kernels kernels = {.norm = Norm,
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
                                  .token_image = TokenImage,
                                  .fp8_activations = Fp8Activations,
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
  // By path.
  const auto launch = [&](LaunchGemm portable, LaunchGemm on_hopper, LaunchGemm pipelined) {
    switch (task.plan.path) {
      case GemmPath::kPortable:
        return portable(stream, task);
      case GemmPath::kHopper:
        return on_hopper(stream, task);
      case GemmPath::kPipelined:
        return pipelined(stream, task);
    }
  };
  switch (task.weights.format) {
    case ImageFormat::kInt8:
      return launch(GemmInt8, GemmInt8OnHopper, GemmInt8Pipelined);
    case ImageFormat::kInt4:
      return launch(GemmInt4, GemmInt4OnHopper, GemmInt4Pipelined);
    case ImageFormat::kFp8:
      return launch(GemmFp8, GemmFp8OnHopper, GemmFp8Pipelined);
    case ImageFormat::kFp8Pairs:
      // None is planned on a path that lacks the instruction.
      SLUICE_CHECK(task.plan.path != GemmPath::kPortable);
      return launch(nullptr, GemmFp8PairsOnHopper, GemmFp8PairsPipelined);
    default:
      return launch(GemmBFloat16, GemmBFloat16OnHopper, GemmBFloat16Pipelined);
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
