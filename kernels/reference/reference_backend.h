// The operations of kernels/backend.h as plain loops: what the fast backends are tested against.
//
// Sums, exponentials and roots are computed in double, so a result is the true value rounded once.
// TreeAdd alone keeps to the order that its contract fixes. One thread, no speed: for tests, the
// self-check and looking into a model.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace sluice {

// Operands of products are F32, or BF16 as on a device with matrix units.
std::unique_ptr<Backend> MakeReferenceBackend(DType operand_dtype = DType::kF32);

}  // namespace sluice
