// The way of one connection from a socket to a peer that has proven which rank it is. Belongs to
// one thread; nothing waits.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/communicator/tcp/rank_hello.h"
#include "kernels/communicator/tcp/tcp_stream.h"

namespace sluice {

// The ranks of a group as they told each other. Constant.
struct RankGroup {
  WiringIdentity wiring;
  int rank = 0;                        // this one
  std::vector<RankAddress> addresses;  // by rank, this one's own too

  int size() const { return static_cast<int>(addresses.size()); }
};

class Introduction {
 public:
  // A connection that was dialled to that rank. Borrows the group.
  Introduction(const RankGroup& group, std::unique_ptr<TcpStream> stream, int peer);
  // One that was accepted: the peer says who it is, and has a higher rank.
  Introduction(const RankGroup& group, std::unique_ptr<TcpStream> stream);

  // True once each end knows the other. UNAVAILABLE where the connection is lost, or the peer is
  // not who it should be, and ABORTED where it is of another wiring: it is of no use then.
  absl::StatusOr<bool> Advance();

  // The peer's rank; -1 for an accepted connection that has not said it yet.
  int peer() const { return peer_; }
  TcpStream& stream() const { return *stream_; }
  std::unique_ptr<TcpStream> TakeStream() { return std::move(stream_); }

 private:
  absl::StatusOr<bool> Send();
  absl::StatusOr<bool> Receive();
  absl::Status CheckHello();
  void Address(int peer);

  const RankGroup& group_;
  std::unique_ptr<TcpStream> stream_;
  const bool dialled_;
  int peer_ = -1;
  bool is_connected_ = false;

  RankHelloBytes ours_{};
  std::size_t sent_ = 0;
  RankHelloBytes theirs_{};
  std::size_t received_ = 0;
};

}  // namespace sluice
