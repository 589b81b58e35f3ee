// Choosing experts, row by row.
#pragma once

#include <cstdint>

#include "kernels/cpu/context.h"
#include "kernels/matrix_view.h"
#include "kernels/routing.h"

namespace sluice {

// ExpertOps::Route.
void Route(CpuContext& context, MatrixView outputs, const RouteParams& params,
           const Routing& routing);

// out[i] = 1 / (1 + exp(-x[i])).
void SigmoidOf(const float* x, int64_t count, float* out);

}  // namespace sluice
