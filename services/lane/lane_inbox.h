// The receiving end of a stream that may have a lane: what comes by either way, ordered by sequence
// number. Whoever works on the messages waits on the lane itself, so that a message costs one
// wake-up.
//
// Next() and TakeIfThere() belong to one thread; the rest is thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "services/lane/lane_reader.h"

namespace sluice {

// Message has sequence_number(): see LaneOffer in protos/sluice/v1/lane.proto.
template <class Message>
class LaneInbox {
 public:
  // What the sender of this wiring may write to; nothing where this process can offer no memory.
  std::optional<v1::LaneOffer> Offer(const WiringIdentity& wiring) const {
    return lane_.Offer(wiring);
  }

  // A message has come by the stream.
  void Add(Message message) {
    {
      absl::MutexLock lock(&mutex_);
      if (!closed_.ok()) return;
      const uint64_t number =
          message.sequence_number() != 0 ? message.sequence_number() : ++last_without_lane_;
      streamed_.insert_or_assign(number, std::move(message));
      news_ = true;
    }
    lane_.Wake();
  }

  // Wakes Next(). The first call decides.
  void Close(const absl::Status& reason) {
    {
      absl::MutexLock lock(&mutex_);
      if (closed_.ok()) closed_ = reason;
      streamed_.clear();
      news_ = true;
    }
    lane_.Wake();
  }

  // Waits for the next message. What it was closed with; INVALID_ARGUMENT where the lane is
  // damaged, or a message repeats a sequence number, or too many before it are missing.
  absl::StatusOr<Message> Next() {
    while (true) {
      absl::StatusOr<std::optional<Message>> message = TakeIfThere();
      if (!message.ok()) return message.status();
      if (message->has_value()) return **std::move(message);
      lane_.Sleep([this] { return news_ || (!ahead_.has_value() && lane_.HasNews()); });
    }
  }

  // The same, but for the wait.
  absl::StatusOr<std::optional<Message>> TakeIfThere() {
    if (news_ || holds_) {
      absl::StatusOr<std::optional<Message>> message = TakeStreamed();
      if (!message.ok() || message->has_value()) return message;
    }
    if (!ahead_.has_value() && damage_.ok()) damage_ = ReadAhead();
    if (!damage_.ok()) return damage_;
    if (!ahead_.has_value() || ahead_->sequence_number() != next_) return std::optional<Message>();
    ++next_;
    return std::exchange(ahead_, std::nullopt);
  }

 private:
  // Messages that came by the stream before their predecessors. Senders have a few steps under way.
  static constexpr size_t kMostHeld = size_t{1} << 16;

  absl::StatusOr<std::optional<Message>> TakeStreamed() {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return closed_;
    if (auto node = streamed_.extract(next_); !node.empty()) {
      ++next_;
      return std::optional<Message>(std::move(node.mapped()));
    }
    if (absl::Status in_order = CheckOrder(); !in_order.ok()) return in_order;
    news_ = false;
    holds_ = !streamed_.empty();
    return std::optional<Message>();
  }

  // What has come by the stream waits for numbers that the lane can still bring.
  absl::Status CheckOrder() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (streamed_.empty()) return absl::OkStatus();
    const uint64_t first = streamed_.begin()->first;
    if (first < next_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the stream brought a message with sequence number ", first,
                       " after number ", next_ - 1));
    }
    if (first - next_ <= LaneSegment::capacity() && streamed_.size() <= kMostHeld) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("the stream brought ", streamed_.size(),
                                                   " messages from number ", first,
                                                   " on, but not number ", next_));
  }

  // What the lane has, one message ahead of its predecessors at most.
  absl::Status ReadAhead() {
    Message& message = ahead_.emplace();
    const absl::StatusOr<bool> read = lane_.Read(message);
    if (read.ok() && *read && message.sequence_number() < next_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the lane holds a message with sequence number ", message.sequence_number(),
                       " after number ", next_ - 1));
    }
    if (!read.ok() || !*read) ahead_.reset();
    return read.status();
  }

  LaneReader lane_{LaneSegment::Create()};
  std::optional<Message> ahead_;    // read from the lane
  absl::Status damage_;             // of the lane
  uint64_t next_ = 1;               // sequence number
  bool holds_ = false;              // of streamed_, when it was looked at last: later numbers
  std::atomic<bool> news_ = false;  // something has come by the stream since then, or the end

  absl::Mutex mutex_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Message> streamed_ ABSL_GUARDED_BY(mutex_);  // by sequence number
  uint64_t last_without_lane_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sluice
