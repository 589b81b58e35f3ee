// Hands what an inbox takes to a function, on a thread of its own: for receivers that have no
// thread which waits for messages of one stream alone.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/lane/lane_inbox.h"

namespace sluice {

template <class Message>
class LanePump {
 public:
  struct Handler {
    std::function<void(Message message)> on_message;
    // What the inbox was closed with, or how its lane is damaged; the last call.
    std::function<void(const absl::Status& status)> on_end;
  };

  explicit LanePump(Handler handler) : handler_(std::move(handler)), thread_([this] { Run(); }) {}

  // Closes the inbox; no call of the handler follows.
  ~LanePump() {
    inbox_.Close(absl::CancelledError("the receiver is gone"));
    thread_.join();
  }

  LaneInbox<Message>& inbox() { return inbox_; }

 private:
  void Run() {
    while (true) {
      absl::StatusOr<Message> message = inbox_.Next();
      if (!message.ok()) return handler_.on_end(message.status());
      handler_.on_message(*std::move(message));
    }
  }

  const Handler handler_;
  LaneInbox<Message> inbox_;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace sluice
