// Times Backend::Gemm on the matrices of real models: products of one row, which read weights at
// the speed of memory, and of many, which the processor's multipliers limit.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "tests/kernels/meter.h"
#include "tests/kernels/model_shapes.h"

namespace sluice::testing {

// One pass over the layers' matrices of a model as a step of `rows` rows makes it: a line for each
// matrix, and one for all of them. As many layers are packed as go beyond any cache.
// The result is checked against the reference first; a wrong one ends the program.
void MeasureModelGemms(Meter& meter, Backend& backend, const ModelShape& model, WeightFormat format,
                       int64_t rows);

}  // namespace sluice::testing
