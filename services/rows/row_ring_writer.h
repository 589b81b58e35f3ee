// The sending end of a row ring in one epoch: a step's rows go into the ring where the receiver has
// opened it and there is room, into the message otherwise. Taken() is thread-safe; the rest belongs
// to the backend's thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "services/rows/ring_space.h"
#include "services/rows/row_ring.h"
#include "services/rows/step_rows.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

class RowRingWriter {
 public:
  // `ring` is borrowed; null: rows go in the message.
  explicit RowRingWriter(RowRing* ring)
      : ring_(ring), space_(ring == nullptr ? kRingAlignment : ring->capacity()) {}

  // The receiver has told. INVALID_ARGUMENT where it can't have taken so much.
  absl::Status Taken(uint64_t position);

  // Puts all rows, or those at `indices` in that order, where the receiver finds them, and says so in
  // `step`. Waits for the backend's work: rows in the ring are there when it returns. Errors are
  // those of StepRows::Store.
  absl::Status Store(StepRows& rows, std::optional<absl::Span<const int32_t>> indices,
                     v1::PushStep& step);

 private:
  std::optional<uint64_t> Reserve(uint64_t bytes);

  RowRing* const ring_;
  absl::Mutex mutex_;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;  // by the receiver
  RingSpace space_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
