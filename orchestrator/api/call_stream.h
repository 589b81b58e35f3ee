// Response stream of a Generate call: a gRPC call of its own, or its part of a session.
// Thread-safe.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

// More than this does not wait for a client: it would be memory that clients fill at will.
inline constexpr size_t kMostUnreadBytes = size_t{1} << 20;

class CallStream {
 public:
  // What the call wants to hear of its client. Neither is called once the stream was closed.
  struct Watcher {
    // The client left; at most once.
    std::function<void()> on_cancel;
    // Whether the client takes what it is sent: true where that is so again. May be called with the
    // stream's lock held: it must not call the stream.
    std::function<void(bool reads)> on_reading;
  };

  virtual ~CallStream() = default;

  // Once, before anything is sent. Calls on_cancel at once where the client has left already.
  virtual void Watch(Watcher watcher) = 0;
  // Does nothing once the stream was closed or the client has left.
  virtual void Send(v1::GenerateResponse response) = 0;
  // Ends the call after what has been sent; the first time counts.
  virtual void Close(const absl::Status& status) = 0;
};

}  // namespace sluice
