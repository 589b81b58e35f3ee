// Ranks that prepare something together and go on only where all have succeeded.
#pragma once

#include "absl/status/status.h"
#include "kernels/communicator.h"
#include "kernels/deadline.h"

namespace sluice {

// OK where `own` is on every rank; otherwise UNAVAILABLE naming a rank that failed and why, on all
// of them, or the communicator's failure. Every rank calls it.
absl::Status AllSucceeded(Communicator& communicator, const absl::Status& own, Deadline deadline);

// What helps a group choose between its two ways of adding: partials of at most so many bytes are
// gathered whole by GPUs (RankGroupSpec::gather_bytes). Gathering takes one exchange less and moves
// (R-1) - 2(R-1)/R partials more, which pays as long as that takes less time than an exchange.
size_t GatherBytesOnGpus(int num_ranks);

}  // namespace sluice
