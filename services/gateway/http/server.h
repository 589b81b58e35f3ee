// Listens, accepts, and serves connections on a few loops, each with a thread of its own. The only
// file that knows Boost.Asio. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/gateway/http/connection.h"

namespace sluice::http {

struct ServerOptions {
  std::string
      address;  // "127.0.0.1:8080", "[::1]:0", ":8080" for every address; port 0: a free one
  int num_threads = 1;
  // Paths of PEM files; both or none. With them HTTPS is spoken, as tls_certificate.h has it.
  std::string tls_certificate;
  std::string tls_key;
  ConnectionContext connections;
  // What connections whose requests are not admitted yet may hold together; beyond it some of them
  // give way.
  uint64_t max_waiting_bytes = uint64_t{64} << 20;
};

class Server {
 public:
  // UNAVAILABLE where the address can't be listened on, INVALID_ARGUMENT where it is none,
  // NOT_FOUND where a certificate or key can't be used.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);
  // REQUIRES: Shutdown() was called, and nothing uses a loop any more.
  ~Server();

  // The address asked for with the port that was bound.
  const std::string& address() const;
  int num_connections() const;
  // Connections accepted so far.
  int64_t num_accepted() const;
  // Connections that were closed to make room for others.
  int64_t num_evicted() const;
  // Connects as a client does: whether the connection is accepted within `patience`. Blocks.
  bool AcceptsStrangers(absl::Duration patience);
  // Whether each of the loops runs a task within `patience`. Blocks.
  bool IsResponsive(absl::Duration patience);
  // Any of the loops, for work that belongs to no connection. Lives as long as the server.
  Loop& loop();

  // Accepts no more, lets responses under way finish for `grace`, then closes them. The loops go
  // on, for what is to end because of that.
  void Shutdown(absl::Duration grace);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::http
