#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/attention_tiles.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {

void AttentionFp8(Stream stream, const AttentionTask& task) {
  LaunchType<DType::kF8E4M3>(stream, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
