// The arithmetic of a decoder: a device (kernels/device.h) and the operations on its memory
// (kernels/ops.h), implemented by each kind of device.
//
//   kernels/cpu         SIMD (Highway) and threads
//   kernels/reference   plain loops
//
// Every implementation keeps two promises, which the rest of Sluice builds on:
// - Batch invariance. A row of a result has the same bits whatever other rows are computed beside
//   it, however a sequence is cut into segments, and however many threads work: reductions run in
//   an order fixed by the shapes of the model alone.
// - Rank invariance. Where a reduction is cut over tensor-parallel ranks, it is a fixed binary tree
//   over `num_slices` runs of the reduced dimension; a rank computes a whole subtree and the rank
//   group joins the subtrees, so 1, 2, 4 and 8 ranks give the same bits.
//
// When things happen
//   Operations are enqueued in call order on one stream of work, and may be carried out at any time
//   the next wait returns; a failure shows there. Waits are Synchronize() and what fills host
//   memory: CopyOut(), GatherElements(), TopK() and Sample(). On CPU an operation has finished when
//   its call returns. Spans are host memory, read (or copied aside) during the call: free again
//   when it returns. Everything else that an operation is given is memory of the backend (Buffer),
//   which the host must not touch, and must keep until the work that uses it is done. A backend is
//   driven by one thread at a time. Shapes that do not fit are broken invariants (SLUICE_CHECK),
//   never a user's fault.
//
// Element types
//   The residual stream, partial sums over ranks, logits and what goes over the wire are F32 on
//   every device, and so are queries, keys and values on their way to attention. Operands of
//   products, that is normed, attended and activated rows, have the backend's operand_dtype(): an
//   operation that writes them rounds once, as the product would.
//
// T rows of the step, H hidden, N and K outputs and inputs of a matrix, D head_dim, Nq/Nkv heads, F
// MLP width, V vocabulary, P positions.
#pragma once

#include "kernels/device.h"
#include "kernels/ops.h"

namespace sluice {

class Backend : public Device, public Ops {};

}  // namespace sluice
