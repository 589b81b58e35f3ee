// Activations times prepacked weights.
//
// The order of every sum is fixed by the matrix alone. Output (t, n) starts each of the num_slices
// runs of K at zero, adds x[t, k] * w[n, k] for k ascending (fused on targets that can), and joins
// the runs as a balanced binary tree over neighbours. A vector holds neighbouring outputs, never
// neighbouring k, so neither its width nor T nor the threads enter into it.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/packed_matrix.h"

namespace sluice {

// Backend::Gemm.
void Gemm(CpuContext& context, MatrixView x, const CpuPackedMatrix& weights, MatrixView out);

}  // namespace sluice
