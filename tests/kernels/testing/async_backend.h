// Any backend, made to behave as one on a device does: for tests of what stands on backend.h.
//
// - Work runs later: nothing is done before the next wait, and then on another thread. Spans are
//   copied aside, as the contract has it.
// - Memory is its own: its pages can't be touched between calls, so that a host that follows a
//   pointer of a Buffer ends with SIGSEGV.
// - Steps are computed with a power of two of rows, and recorded: the second step of a key runs
//   what the first enqueued.
// - Its memory can be shared, as pages that other processes map as well.
// - Failures come late: that of a rank group shows at the next wait, and drops what is behind it.
//
// Bits, name and operand_dtype() are those of the backend within. Driven by one thread at a time.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace sluice {

std::unique_ptr<Backend> MakeAsyncBackend(std::unique_ptr<Backend> within);

}  // namespace sluice
