// How the bytes of a rank group pass between its ranks, in the backend's stream of work: between
// hosts' memories a communicator moves them, between GPUs NCCL, copies by the GPU itself where
// processes share one, or a communicator where ranks share a process. Belongs to the backend's
// thread.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace sluice {

// Both calls are enqueued like any operation, or done when they return: memory of the backend, which
// stays as it is until the work is done. A failure that is known at once is returned. All ranks make the same calls in the
// same order with the same sizes; the shapes are those of Communicator.
class RankExchange {
 public:
  virtual ~RankExchange() = default;

  // `received` = the `sent` of rank 0, 1, ... in order.
  virtual absl::Status AllGather(absl::Span<const std::byte> sent,
                                 absl::Span<std::byte> received) = 0;

  // Part r of `sent` goes to rank r; part r of `received` came from rank r.
  virtual absl::Status AllToAll(absl::Span<const std::byte> sent,
                                absl::Span<std::byte> received) = 0;
};

}  // namespace sluice
