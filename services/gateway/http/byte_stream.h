// A connection's bytes, plain or through TLS, and its one timer. Belongs to a loop: called there
// alone, calls back there alone.
#pragma once

#include <functional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace sluice::http {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Once, before anything else. Nothing to do without TLS, but calls back as well.
  virtual void Handshake(std::function<void(bool ok)> done) = 0;
  // Reads at least one byte; 0 where the stream has ended or failed. One read at a time; `into`
  // stays valid until it calls back.
  virtual void Read(absl::Span<char> into, std::function<void(size_t num_bytes)> done) = 0;
  // Writes what can be written at once, most often all; returns how many bytes that was. Not while
  // a Write() is under way, which is for the rest.
  virtual size_t TryWrite(absl::string_view bytes) = 0;
  // Writes all. One write at a time; `bytes` stay valid until it calls back.
  virtual void Write(absl::string_view bytes, std::function<void(bool ok)> done) = 0;
  // Calls back where the other side has gone altogether, which a stream that it has ended does not
  // say: it may still read. REQUIRES: Read() has called back with 0, and bytes were written since.
  virtual void WatchGone(std::function<void()> gone) = 0;
  // The other side sees the end of the stream, and may still be read.
  virtual void EndWrites() = 0;
  // Calls back after `delay` unless the timer was set again or stopped by then. A delay that is
  // infinite stops it.
  virtual void SetTimer(absl::Duration delay, std::function<void()> on_time) = 0;
  // Ends the stream; what is under way calls back as failed. May be called more than once.
  virtual void Close() = 0;
};

}  // namespace sluice::http
