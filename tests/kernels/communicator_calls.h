// Calls whose every received byte is checked. Each byte tells which call of which seed it belongs
// to, who sent it to whom, and its place, so that none can stand in for another unnoticed for long.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/communicator.h"

namespace sluice::testing {

enum class CallKind { kBroadcast = 0, kAllGather = 1, kAllToAll = 2 };

struct CheckedCall {
  CallKind kind = CallKind::kBroadcast;
  int root = 0;               // Broadcast only
  std::size_t bytes = 0;      // of one part: what one rank sends to one other
  std::uint64_t pattern = 0;  // the same on all ranks, different from call to call
};

// The call's failure, or DATA_LOSS naming the first wrong byte.
absl::Status MakeCheckedCall(Communicator& communicator, const CheckedCall& call,
                             Deadline deadline = Deadline::Never());

// `count` calls of random kinds, roots and sizes of 0 to `max_bytes`, the same on all ranks.
absl::Status MakeMixedCalls(Communicator& communicator, std::uint64_t seed, int count,
                            std::size_t max_bytes);

}  // namespace sluice::testing
