// The messages between this rank and one peer, over a stream that is trusted. A call sends at most
// one message each way: a header that says which call it belongs to, then the call's bytes. Belongs
// to one thread; nothing waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/communicator/collective_call.h"
#include "kernels/communicator/tcp/tcp_stream.h"

namespace sluice {

// Precedes every message, in 24 bytes.
struct LinkHeader {
  std::uint64_t call = 0;  // how many the sender made before
  std::uint32_t operation = 0;
  std::uint32_t root = 0;
  std::uint64_t bytes = 0;  // of the body

  std::string ToString() const;
};

using LinkHeaderBytes = std::array<std::byte, 24>;
LinkHeaderBytes Encode(const LinkHeader& header);
LinkHeader ParseLinkHeader(const LinkHeaderBytes& bytes);

class Link {
 public:
  explicit Link(std::unique_ptr<TcpStream> stream) : stream_(std::move(stream)) {}

  // Bodies live until done().
  void Send(const LinkHeader& header, absl::Span<const std::byte> body);
  void Receive(const LinkHeader& header, absl::Span<std::byte> body);

  // Moves what can be moved now, and returns whether that was anything. UNAVAILABLE where the
  // connection is lost, INTERNAL where the peer makes another call.
  absl::StatusOr<bool> Advance();
  bool done() const { return sending_.done() && receiving_.done(); }

  // What poll(2) has to wait for after Advance() has moved nothing.
  short awaited_events() const { return awaited_events_; }
  int fd() const { return stream_->fd(); }

 private:
  // How far a message has come, header included.
  struct Progress {
    std::size_t moved = 0;
    std::size_t total = 0;
    bool done() const { return moved == total; }
  };

  absl::StatusOr<std::size_t> AdvanceSending();
  absl::StatusOr<std::size_t> AdvanceReceiving();
  absl::Status CheckHeader() const;

  const std::unique_ptr<TcpStream> stream_;
  short awaited_events_ = 0;

  LinkHeaderBytes sent_header_{};
  absl::Span<const std::byte> sent_body_;
  Progress sending_;

  LinkHeader expected_;
  LinkHeaderBytes received_header_{};
  absl::Span<std::byte> received_body_;
  Progress receiving_;
};

}  // namespace sluice
