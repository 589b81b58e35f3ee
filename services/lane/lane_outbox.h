// The sending end of a stream that may have a lane: each message goes by the lane where there is
// one that has room for it, by the stream otherwise. Thread-safe; never waits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "services/lane/lane_writer.h"
#include "services/streams/sent_bytes.h"

namespace sluice {

template <class Message>
class LaneOutbox {
 public:
  // Messages go by the lane from now on, if it can be reached from here and was offered in this
  // wiring: why not, otherwise. Only the first that is reached counts.
  absl::Status Open(const v1::LaneOffer& offer, const WiringIdentity& wiring) {
    absl::StatusOr<std::unique_ptr<LaneSegment>> segment = LaneSegment::Open(offer, wiring);
    if (!segment.ok()) return segment.status();
    absl::MutexLock lock(&mutex_);
    if (!lane_.has_value()) lane_.emplace(*std::move(segment));
    return absl::OkStatus();
  }

  // Gives the message its sequence number. `stream` sends what the lane does not take:
  // `stream(Message&&)`.
  template <class Stream>
  void Send(Message&& message, const Stream& stream) {
    absl::MutexLock lock(&mutex_);
    message.set_sequence_number(++last_);
    if (lane_.has_value() && lane_->Write(message)) {
      CountSent(message);
    } else {
      stream(std::move(message));
    }
  }

 private:
  absl::Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;  // sequence number
  std::optional<LaneWriter> lane_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
