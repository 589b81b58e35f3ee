#include "services/lane/lane_reader.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "services/lane/lane_record.h"

namespace sluice {
namespace {

// A peer that goes away ends its stream, which wakes the reader by Wake(). Only one that damages the bell
// just then costs this time.
constexpr absl::Duration kLongestSleep = absl::Seconds(1);

}  // namespace

LaneReader::LaneReader(std::unique_ptr<LaneSegment> segment)
    : segment_(std::move(segment)), position_(segment_->read().Load()) {}

absl::StatusOr<bool> LaneReader::Read(google::protobuf::MessageLite& message) {
  if (!damage_.ok()) return damage_;
  absl::StatusOr<bool> taken = Take(message);
  damage_ = taken.status();
  return taken;
}

// Bytes are copied before they are looked at: the peer may change them meanwhile.
absl::StatusOr<bool> LaneReader::Take(google::protobuf::MessageLite& message) {
  const std::uint32_t unread = segment_->written().Load() - position_;
  if (unread == 0) return false;
  if (unread > LaneSegment::capacity() || unread < sizeof(LaneRecordLength)) {
    return absl::InvalidArgumentError(absl::StrCat("the lane says that it holds ", unread,
                                                   " bytes; it has room for ",
                                                   LaneSegment::capacity()));
  }
  LaneRecordLength length = 0;
  CopyFromRing(segment_->ring(), position_, &length, sizeof(length));
  if (length > kMostLaneMessageBytes || LaneRecordBytes(length) > unread) {
    return absl::InvalidArgumentError(absl::StrCat("the lane says that a message has ", length,
                                                   " bytes, of ", unread, " that it holds"));
  }
  bytes_.resize(length);
  CopyFromRing(segment_->ring(), static_cast<std::uint32_t>(position_ + sizeof(length)),
               bytes_.data(), length);
  position_ += static_cast<std::uint32_t>(LaneRecordBytes(length));
  segment_->read().Store(position_);
  if (!message.ParseFromString(bytes_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the lane holds ", length, " bytes that are no ", message.GetTypeName()));
  }
  return true;
}

void LaneReader::Sleep(absl::FunctionRef<bool()> ready) {
  segment_->parked().Exchange(1);
  if (!ready()) segment_->parked().WaitWhile(1, kLongestSleep);
  segment_->parked().Store(0);
}

// Whatever the peer has written there: the reader may sleep all the same.
void LaneReader::Wake() {
  segment_->parked().Exchange(0);
  segment_->parked().Wake();
}

}  // namespace sluice
