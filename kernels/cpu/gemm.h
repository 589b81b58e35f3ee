// Activations times prepacked weights.
//
// The order of every sum is fixed by the matrix and the instruction set alone. Output (t, n) starts
// each of the num_slices runs of K at zero, adds its products in the order of the kernel
// (gemm_portable.cc, gemm_avx512-inl.h), and joins the runs as a balanced binary tree over
// neighbours. A vector holds neighbouring outputs, so neither T nor the threads enter into it.
#pragma once

#include "kernels/adapter_ops.h"
#include "kernels/backend.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/latent_ops.h"

namespace sluice {

// Ops::Gemm.
void Gemm(CpuContext& context, MatrixView x, const CpuPackedMatrix& weights, MatrixView out,
          const GemmEpilogue& epilogue, const SumAddends& addends = {});

// LatentOps::GemmOfHeads.
void GemmOfHeads(CpuContext& context, const HeadColumns& x,
                 absl::Span<const PackedMatrix* const> weights, const HeadColumns& out);

// Allocates what products of up to `max_rows` rows with `weights` take.
void ReserveGemm(CpuContext& context, const CpuPackedMatrix& weights, int64_t max_rows);
void ReserveGemmOfHeads(CpuContext& context, absl::Span<const PackedMatrix* const> weights,
                        int64_t max_rows);

}  // namespace sluice
