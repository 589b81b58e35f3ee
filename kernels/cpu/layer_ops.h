// Operations that are several of the others one after another, with their bits: contracts in
// kernels/ops.h and kernels/latent_ops.h.
#pragma once

#include "absl/types/span.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/kv_pool.h"
#include "kernels/latent_ops.h"
#include "kernels/matrix_view.h"
#include "kernels/ops.h"

namespace sluice {

void ApplyQkNormRopeAndStoreKv(CpuContext& context, MatrixView qkv, const QkNormRopeParams& params,
                               int layer, CpuKvPool& pool);

void PrepareLatentAttention(CpuContext& context, MatrixView q, MatrixView kv,
                            const LatentParams& params, int layer, CpuKvPool& pool,
                            MatrixView queries);

void TreeAddToResidual(CpuContext& context, absl::Span<const MatrixView> partials,
                       const ResidualUpdate& update);

}  // namespace sluice
