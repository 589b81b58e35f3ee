// The operations of kernels/backend.h as plain loops: what the fast backends are tested against.
//
// Activations are F32; sums, exponentials and roots are computed in double, so a result is the true
// value rounded once. TreeAdd alone keeps to the order that its contract fixes. One thread, no
// speed; linked by tests only.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace sluice {

std::unique_ptr<Backend> MakeReferenceBackend();

}  // namespace sluice
