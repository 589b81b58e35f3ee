// A backend that computes as another one does and tells what attention weighs, which fused operations
// never write down. For looking into a model beside serving: no serving process uses it.
//
// It keeps keys a second time as kernels/reference does, in F32 whatever the pool's type, and
// computes every weight from them in double, in plain loops. What the layers compute is the other
// backend's, bit for bit. Driven by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "kernels/backend.h"

namespace sluice {

// Told about every call of Ops::PagedAttention, during that call.
class AttentionObserver {
 public:
  virtual ~AttentionObserver() = default;

  // A call begins, over a step whose queries have so many heads.
  virtual void OnAttention(int num_heads) = 0;
  // Whether the weights of `head` are to be computed in this call.
  virtual bool Wants(int head) const = 0;
  // The weight of each position [0, position] for a query at `position`: `weights` [position + 1], 0
  // where a window or chunk hides a position. They add up to 1, or with a sink to what it leaves.
  // Heads in ascending order for each position, positions in ascending order.
  virtual void OnWeights(int head, int64_t position, absl::Span<const double> weights) = 0;
};

// Borrows `observer`. REQUIRES: `within` has its memory on the host and does its work during calls, as
// the CPU backend; the steps that it is given have one segment.
std::unique_ptr<Backend> MakeObservedBackend(std::unique_ptr<Backend> within,
                                             AttentionObserver& observer);

}  // namespace sluice
