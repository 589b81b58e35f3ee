// The reading end of a lane. Belongs to one thread, but for Wake(), which is thread-safe.
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "services/lane/lane_segment.h"

namespace sluice {

class LaneReader {
 public:
  explicit LaneReader(std::unique_ptr<LaneSegment> segment);

  // Takes the next message out of the ring, if there is one: whether it did. INVALID_ARGUMENT, now and from
  // then on, where what the ring holds can't be: the lane is of no use any more.
  absl::StatusOr<bool> Read(google::protobuf::MessageLite& message);

  // Whether the ring has something that has not been read.
  bool HasNews() const { return segment_->written().Load() != position_; }

  // Sleeps until something is written or Wake() is called, unless `ready` says, once the sleep is announced,
  // that there is something to do. May return early for no reason.
  void Sleep(absl::FunctionRef<bool()> ready);

  // Ends a sleep, or the one that is about to begin, where `ready` of it says so.
  void Wake();

  // Of its segment.
  std::optional<v1::LaneOffer> Offer(const WiringIdentity& wiring) const {
    return segment_->Offer(wiring);
  }

 private:
  absl::StatusOr<bool> Take(google::protobuf::MessageLite& message);

  const std::unique_ptr<LaneSegment> segment_;
  std::uint32_t position_;  // as published in read()
  std::string bytes_;       // of the message in hand
  absl::Status damage_;
};

}  // namespace sluice
