// The parts of fused operations, each as plain loops: by them the reference defines what
// Ops::ApplyQkNormRopeAndStoreKv and Ops::TreeAddToResidual compute. Pure functions.
#pragma once

#include "kernels/host_step.h"
#include "kernels/matrix_view.h"
#include "kernels/ops.h"

namespace sluice::reference {

// out = x / sqrt(mean(x^2) + eps) * weight, row by row (Zhang and Sennrich 2019). x [T, H] F32, out
// [T, H] F32 (and then may be x) or BF16, weight [H].
void RmsNorm(MatrixView x, const float* weight, float eps, MatrixView out);

// out = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, row by row. x and out as RmsNorm's,
// bias [H] or null.
void LayerNorm(MatrixView x, const float* weight, const float* bias, float eps, MatrixView out);

// RmsNorm, or LayerNorm of centred norms, of every head of the queries (of the keys) by itself, in
// place, as `params` has it.
void NormQueryHeads(MatrixView queries, const QkNormRopeParams& params);
void NormKeyHeads(MatrixView keys, const QkNormRopeParams& params);

// Rotates the first 2 * pairs elements of every head of x [T, heads * head_dim] F32 in place (Su et
// al. 2021): (a, b) -> (a cos - b sin, b cos + a sin), with the angles of the step's rows.
void Rope(MatrixView x, int head_dim, const RopeTables& tables, RopeLayout layout,
          const HostStep& step);

// x = x, but within -limit .. limit. x [T, N] F32.
void Clamp(float limit, MatrixView x);

// x[t, n] += bias[n]. x [T, N] F32, bias [N].
void AddBias(const float* bias, MatrixView x);

// residual += x. Both [T, H] F32.
void AddResidual(MatrixView x, MatrixView residual);

}  // namespace sluice::reference
