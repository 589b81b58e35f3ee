// The launchers of a platform's kernels, as they go into its table. After simt.h.
#pragma once

#include "kernels/cuda/kernels.h"

namespace sluice::cuda::SIMT_NAMESPACE {

void Norm(Stream stream, const NormTask& task);
void Elementwise(Stream stream, const ElementwiseTask& task);
void SumToResidual(Stream stream, const SumToResidualTask& task);
void TreeAdd(Stream stream, const TreeAddTask& task);
void Rearrange(Stream stream, const RearrangeTask& task);
void GatherRows(Stream stream, const GatherRowsTask& task);
void GatherElements(Stream stream, const GatherElementsTask& task);
void LogSoftmax(Stream stream, const LogSoftmaxTask& task);
void TopK(Stream stream, const TopKTask& task);
void Sample(Stream stream, const SampleTask& task);
void Pack(Stream stream, const PackTask& task);
void Gemm(Stream stream, const GemmTask& task);
// By format of the weights, and path.
void GemmBFloat16(Stream stream, const GemmTask& task);
void GemmInt8(Stream stream, const GemmTask& task);
void GemmInt4(Stream stream, const GemmTask& task);
void GemmFp8(Stream stream, const GemmTask& task);
void GemmBFloat16OnHopper(Stream stream, const GemmTask& task);
void GemmFp8OnHopper(Stream stream, const GemmTask& task);
void GemmInt8OnHopper(Stream stream, const GemmTask& task);
void GemmInt4OnHopper(Stream stream, const GemmTask& task);
void GemmBFloat16Pipelined(Stream stream, const GemmTask& task);
void GemmFp8Pipelined(Stream stream, const GemmTask& task);
void GemmInt8Pipelined(Stream stream, const GemmTask& task);
void GemmInt4Pipelined(Stream stream, const GemmTask& task);
void GemmFp8PairsOnHopper(Stream stream, const GemmTask& task);
void GemmFp8PairsPipelined(Stream stream, const GemmTask& task);
void Fp8Activations(Stream stream, const Fp8ActivationsTask& task);
void TokenImage(Stream stream, const TokenImageTask& task);
void FloatGemm(Stream stream, const FloatGemmTask& task);
void StoreKv(Stream stream, const StoreKvTask& task);
void CopyBlocks(Stream stream, const CopyBlocksTask& task);
void Attention(Stream stream, const AttentionTask& task);
void AttentionBFloat16(Stream stream, const AttentionTask& task);
void AttentionFp8(Stream stream, const AttentionTask& task);
void AttentionFloat(Stream stream, const AttentionTask& task);
void MergeSplits(Stream stream, const MergeSplitsTask& task);

}  // namespace sluice::cuda::SIMT_NAMESPACE
