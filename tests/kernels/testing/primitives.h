// The parts of fused operations, each as a call of the operation that leaves out its other parts: for
// tests of one part, and of the whole against its parts. The results are there when a call returns.
#pragma once

#include "absl/types/span.h"
#include "kernels/backend.h"

namespace sluice::testing {

// What ApplyQkNormRopeAndStoreKv makes of x [T, heads * head_dim] as its queries, in place. Begins a
// step of T rows with these segments, whose block tables need 16 positions a block.
void ApplyToQueries(Backend& backend, MatrixView x, QkNormRopeParams params,
                    absl::Span<const AttentionSegment> segments = {});

// x / sqrt(mean(x^2) + eps) * weight of every head of x, in place. Begins a step.
void HeadRmsNorm(Backend& backend, MatrixView x, int head_dim, const float* weight, float eps);

// Rotates the heads of x in place. Begins a step with these segments.
void Rope(Backend& backend, MatrixView x, int head_dim, const RopeTables& tables, RopeLayout layout,
          absl::Span<const AttentionSegment> segments = {});

// Writes keys and values [T, Nkv * D] of the step's positions into their slots of `layer`.
void StoreKv(Backend& backend, MatrixView keys, MatrixView values, int layer, KvPool& pool);

// x[t, n] += bias[n].
void AddBias(Backend& backend, const float* bias, MatrixView x);

}  // namespace sluice::testing
