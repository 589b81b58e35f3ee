// The writing end of a lane. Belongs to one thread at a time. Never waits.
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstdint>
#include <memory>
#include <string>

#include "services/lane/lane_segment.h"

namespace sluice {

class LaneWriter {
 public:
  explicit LaneWriter(std::unique_ptr<LaneSegment> segment);

  // Puts the message into the ring and wakes the reader where it sleeps. False, and nothing done, where the
  // ring has no room for it now, or never, or the reader says that it has read what was never written.
  bool Write(const google::protobuf::MessageLite& message);

 private:
  bool HasRoom(std::uint64_t bytes) const;

  const std::unique_ptr<LaneSegment> segment_;
  std::uint32_t position_;  // as published in written()
  std::string wrapped_;     // a message that goes round the ring's end
};

}  // namespace sluice
