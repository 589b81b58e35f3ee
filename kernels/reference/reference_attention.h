// Attention of the reference backend: every weight in double, no blocks, no running maximum.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cross_attention_ops.h"
#include "kernels/reference/reference_kv_pool.h"

namespace sluice {

// Writes keys and values [T, Nkv * D] of the step's positions into their slots of `layer`.
void ReferenceStoreKv(MatrixView keys, MatrixView values,
                      absl::Span<const AttentionSegment> segments, int layer,
                      ReferenceKvPool& pool);

// Writes vectors [T, D] of the step's positions into their slots of `layer` of a latent pool.
void ReferenceStoreLatent(MatrixView vectors, absl::Span<const AttentionSegment> segments,
                          int layer, ReferenceKvPool& pool);

// What row `row` of the segment weighs the positions with that `head` reads: one weight for each
// position from 0 to the row's own, 0 where the options hide it. They add up to 1, less what a sink
// takes. q as Ops::PagedAttention has it.
std::vector<double> ReferenceAttentionWeights(MatrixView q, const ReferenceKvPool& pool, int layer,
                                              const AttentionSegment& segment, int64_t row,
                                              int head, const AttentionOptions& options);

// CrossAttentionOps::BiasedAttention; without values of a bias OpenAttentionOps::OpenAttention and, with
// `ahead` 0, Ops::PagedAttention.
void ReferenceAttention(MatrixView q, const ReferenceKvPool& pool, int layer,
                        absl::Span<const AttentionSegment> segments,
                        const AttentionOptions& options, const DistanceBias& bias, int64_t ahead,
                        MatrixView out);

}  // namespace sluice
