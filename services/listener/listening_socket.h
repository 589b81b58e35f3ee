// Sockets that listen, for addresses as processes of Sluice are given them (services/common/address.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// A socket that listens and does not block. Closed at its end, and its file removed where it is a unix
// socket. Movable.
class ListeningSocket {
 public:
  ListeningSocket(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  int fd() const { return fd_; }
  bool is_unix() const { return !path_.empty(); }

 private:
  int fd_;
  std::string path_;
};

struct Listening {
  std::vector<ListeningSocket> sockets;
  int port = 0;  // that was bound; 0 of a unix socket
};

// Listens on "unix:/PATH" or "HOST:PORT": on every address of the host, and where that is 0.0.0.0 or
// [::] on all of this one, of both families. Port 0: any free one. A socket file that is there already
// is replaced. UNAVAILABLE where an address is in use, or where none can be bound.
absl::StatusOr<Listening> Listen(absl::string_view address);

}  // namespace sluice
