// Attention of the reference backend: every weight in double, no blocks, no running maximum.
#pragma once

#include "kernels/backend.h"
#include "kernels/reference/reference_kv_pool.h"

namespace sluice {

// Backend::StoreKv.
void ReferenceStoreKv(MatrixView keys, MatrixView values,
                      absl::Span<const AttentionSegment> segments, int layer,
                      ReferenceKvPool& pool);

// Backend::PagedAttention.
void ReferenceAttention(MatrixView q, const ReferenceKvPool& pool, int layer,
                        absl::Span<const AttentionSegment> segments,
                        const AttentionOptions& options, MatrixView out);

}  // namespace sluice
