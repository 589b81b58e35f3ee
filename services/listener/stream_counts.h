// How many streams each connection of this process's gRPC servers has had, as gRPC's channelz counts
// them: also those that never reach a handler. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "services/listener/connection_table.h"

namespace sluice {

class StreamCounts {
 public:
  // The number by which gRPC knows the connection that `peer` ("ipv4:10.0.0.7:5123") has with local
  // port `port`; 0 until its handshake is over, and once it is closed.
  int64_t FindSocket(absl::string_view peer, int port);

  // Nothing where the connection is closed.
  static std::optional<ConnectionTable::Streams> Of(int64_t socket);

  // Forgets the number.
  void Forget(absl::string_view peer, int port);

 private:
  void LookForNew();

  std::map<int64_t, int64_t> next_socket_;  // of each server
  std::map<std::string, int64_t> sockets_;  // by peer and port
};

}  // namespace sluice
