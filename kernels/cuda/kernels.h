// The kernels as launchers: each enqueues its work and returns. One table per platform they are
// compiled for.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/gather.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/kv_pool.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/sample.h"
#include "kernels/cuda/softmax.h"
#include "kernels/cuda/sum.h"
#include "kernels/cuda/top_k.h"

namespace sluice::cuda {

struct Kernels {
  LaunchNorm norm;
  LaunchElementwise elementwise;
  LaunchTreeAdd tree_add;
  LaunchSumToResidual sum_to_residual;
  LaunchRearrange rearrange;
  LaunchGatherRows gather_rows;
  LaunchGatherElements gather_elements;
  LaunchLogSoftmax log_softmax;
  LaunchTopK top_k;
  LaunchSample sample;
  LaunchPack pack;
  LaunchTokenImage token_image;
  LaunchFp8Activations fp8_activations;
  LaunchGemm gemm;
  LaunchFloatGemm float_gemm;
  LaunchStoreKv store_kv;
  LaunchCopyBlocks copy_blocks;
  LaunchAttention attention;
  AttentionSharedBytes attention_shared_bytes;
  LaunchMergeSplits merge_splits;
};

}  // namespace sluice::cuda
