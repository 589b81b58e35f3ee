#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/attention_tiles.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {

void AttentionFloat(Stream stream, const AttentionTask& task) {
  LaunchType<DType::kF32>(stream, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
