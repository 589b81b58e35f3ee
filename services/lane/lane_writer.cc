#include "services/lane/lane_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "services/lane/lane_record.h"

namespace sluice {

LaneWriter::LaneWriter(std::unique_ptr<LaneSegment> segment)
    : segment_(std::move(segment)), position_(segment_->written().Load()) {}

bool LaneWriter::Write(const google::protobuf::MessageLite& message) {
  const std::size_t size = message.ByteSizeLong();
  if (size > kMostLaneMessageBytes || !HasRoom(LaneRecordBytes(size))) return false;
  const auto length = static_cast<LaneRecordLength>(size);
  CopyToRing(segment_->ring(), position_, &length, sizeof(length));
  const auto body = static_cast<std::uint32_t>(position_ + sizeof(length));
  const std::size_t start = LaneRingOffset(body);
  if (start + size <= LaneSegment::capacity()) {
    message.SerializeWithCachedSizesToArray(
        reinterpret_cast<std::uint8_t*>(segment_->ring() + start));
  } else {
    wrapped_.resize(size);
    message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(wrapped_.data()));
    CopyToRing(segment_->ring(), body, wrapped_.data(), size);
  }
  position_ += static_cast<std::uint32_t>(LaneRecordBytes(size));
  segment_->written().Store(position_);
  // The reader does the opposite: it says that it sleeps, then looks. One of the two sees the other.
  if (segment_->parked().Load() != 0 && segment_->parked().Exchange(0) != 0) {
    segment_->parked().Wake();
  }
  return true;
}

bool LaneWriter::HasRoom(std::uint64_t bytes) const {
  const std::uint32_t unread = position_ - segment_->read().Load();
  return unread <= LaneSegment::capacity() && bytes <= LaneSegment::capacity() - unread;
}

}  // namespace sluice
