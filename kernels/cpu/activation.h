// The functions of kernels/activation.h, element by element. An element's bits do not depend on its
// place in a row: whole vectors and what is left over take the same operations.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Backend::Activate.
void Activate(CpuContext& context, Activation activation, MatrixView x, MatrixView out);

// Backend::ActivateGated.
void ActivateGated(CpuContext& context, Activation activation, MatrixView gate_up, MatrixView out);

}  // namespace sluice
