// Causal attention over paged keys and values, for decode steps and prefill chunks alike.
//
// A query is one (row, query head). The result of a query has the same bits whichever other queries
// are worked on beside it, and however its splits (kernels/attention_splits.h) are shared out among
// threads. Within a split its scores sum over head_dim in ascending order; runs of kBlocksPerRun
// blocks, counted from the split's first, are taken one after another, the running maximum and sum
// rescaled once per run; values are added in order of position. Splits are then merged in ascending
// order, a product with the rescaled later one fused into the addition.
//
// In the latent layout the keys of a run are transposed first, once for all queries of a task: from
// there on they are as in the other layout, and so are the bits.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/kv_pool.h"

namespace sluice {

// Ops::PagedAttention.
void PagedAttention(CpuContext& context, MatrixView q, const CpuKvPool& pool, int layer,
                    const AttentionOptions& options, MatrixView out);

// Allocates what steps of up to `max_rows` rows take, of groups of at most kMostQueriesOfTask
// heads.
void ReserveAttention(CpuContext& context, const CpuKvPool& pool, int64_t max_rows);

}  // namespace sluice
