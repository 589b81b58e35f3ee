// Counters of bytes sent by the streams of this process, by message type, for /metrics. Counted
// once a message is written, of its size before gRPC's framing and TLS. Thread-safe.
#pragma once

#include <google/protobuf/message_lite.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace sluice {

struct SentBytes {
  std::string message;  // such as "PushRequest"
  uint64_t bytes = 0;
};

// Of every type that has been sent, in the order of their first messages.
std::vector<SentBytes> AllSentBytes();

// What is counted for a type of message, made at its first call. Lives as long as the process.
std::atomic<uint64_t>& SentBytesCounter(std::string message);

// `message` has been written. Of messages that come serialised, their type is not known: they are
// the public API's, and count as such.
template <class Message>
void CountSent(const Message& message) {
  if constexpr (std::is_base_of_v<google::protobuf::MessageLite, Message>) {
    static std::atomic<uint64_t>& counter = SentBytesCounter(Message::descriptor()->name());
    counter += static_cast<uint64_t>(message.GetCachedSize());
  } else {
    static std::atomic<uint64_t>& counter = SentBytesCounter("GenerateResponse");
    counter += message.Length();
  }
}

}  // namespace sluice
