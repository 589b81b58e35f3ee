// OpenAttentionOps and CrossAttentionOps on CPU: kernels/cpu/attention.h with rows that see later
// positions, biases, or another text.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/attention_task.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/kv_pool.h"
#include "kernels/cross_attention_ops.h"
#include "kernels/open_attention_ops.h"

namespace sluice {

// OpenAttentionOps::OpenAttention.
void OpenAttention(CpuContext& context, MatrixView q, const CpuKvPool& pool, int layer,
                   const AttentionOptions& options, int64_t ahead, MatrixView out);

// CrossAttentionOps.
void BiasedAttention(CpuContext& context, MatrixView q, const CpuKvPool& pool, int layer,
                     const AttentionOptions& options, const DistanceBias& bias, int64_t ahead,
                     MatrixView out);
void CrossAttention(CpuContext& context, MatrixView q, const CpuKvPool& pool, int layer,
                    const AttentionOptions& options, absl::Span<const SourceSegment> segments,
                    MatrixView out);

// PlanAttention of rows that see `ahead` positions after their own.
void PlanOpenAttention(absl::Span<const AttentionSegment> segments, const AttentionShape& shape,
                       int64_t ahead, AttentionPlan* plan);

}  // namespace sluice
