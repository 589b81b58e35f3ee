#include "kernels/communicator/gloo_mesh.h"

#include <gloo/transport/address.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/attr.h>
#include <gloo/transport/tcp/device.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/communicator/sigpipe_guard.h"

namespace sluice {
namespace {

// All addresses are known by then, so peers that live answer at once.
constexpr absl::Duration kMaxConnectTime = absl::Seconds(5);
// Gloo gives an initial connection five times a pair's timeout.
constexpr int kGlooConnectFactor = 5;

std::string Key(const GlooOptions& options, int rank) {
  return absl::StrCat(options.group, "/", rank);
}

// Gloo says little of an address that can't be bound, and leaks memory then, so it is tried first.
absl::Status CheckBindable(const std::string& numeric_address) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* address = nullptr;
  int error = 0;
  if (getaddrinfo(numeric_address.c_str(), nullptr, &hints, &address) != 0) {
    error = EADDRNOTAVAIL;
  } else {
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, address->ai_addr, address->ai_addrlen) != 0) error = errno;
    if (fd >= 0) close(fd);
    freeaddrinfo(address);
  }
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot bind to ", numeric_address, ": ",
                                             std::generic_category().message(error),
                                             "; an address of this host is needed"));
}

GlooMesh OpenMesh(const GlooOptions& options, Deadline deadline) {
  gloo::transport::tcp::attr attributes(options.bind_address.c_str());
  if (!options.interface.empty()) {
    attributes.hostname.clear();
    attributes.iface = options.interface;
  }
  GlooMesh mesh;
  mesh.device = gloo::transport::tcp::CreateDevice(attributes);
  mesh.context = mesh.device->createContext(options.rank, options.size);
  const absl::Duration connect_time = std::min(deadline.Left(), kMaxConnectTime);
  mesh.context->setTimeout(std::max(std::chrono::milliseconds(1),
                                    absl::ToChronoMilliseconds(connect_time / kGlooConnectFactor)));
  return mesh;
}

// This rank's addresses, one per peer since every pair listens on a port of its own, each as many
// bytes as the others; the place of the rank itself is zeros.
std::string ListenForPeers(const GlooOptions& options, const GlooMesh& mesh) {
  std::vector<std::vector<char>> addresses(options.size);
  std::size_t address_bytes = 0;
  for (int peer = 0; peer < options.size; ++peer) {
    if (peer == options.rank) continue;
    addresses[peer] = mesh.context->createPair(peer)->address().bytes();
    address_bytes = addresses[peer].size();
  }
  std::string all;
  for (std::vector<char>& address : addresses) {
    address.resize(address_bytes);
    all.append(address.begin(), address.end());
  }
  return all;
}

absl::Status ConnectPeers(const GlooOptions& options, const GlooMesh& mesh, RendezvousStore& store,
                          Deadline deadline) {
  const std::string mine = ListenForPeers(options, mesh);
  if (absl::Status set = store.Set(Key(options, options.rank), mine); !set.ok()) return set;
  std::vector<std::string> theirs(options.size);
  for (int peer = 0; peer < options.size; ++peer) {
    if (peer == options.rank) continue;
    absl::StatusOr<std::string> addresses = store.Get(Key(options, peer), deadline);
    if (!addresses.ok()) return addresses.status();
    if (addresses->size() != mine.size()) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", peer, " left ", addresses->size(), " bytes of addresses, not ",
                       mine.size(), " as a rank of a group of ", options.size, " would"));
    }
    theirs[peer] = *std::move(addresses);
  }
  const std::size_t address_bytes = mine.size() / options.size;
  for (int peer = 0; peer < options.size; ++peer) {
    if (peer == options.rank) continue;
    const char* const address = theirs[peer].data() + address_bytes * options.rank;
    mesh.context->getPair(peer)->connect(std::vector<char>(address, address + address_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GlooMesh> ConnectGlooMesh(const GlooOptions& options, RendezvousStore& store,
                                         Deadline deadline) {
  if (options.interface.empty()) {
    if (absl::Status bindable = CheckBindable(options.bind_address); !bindable.ok()) {
      return bindable;
    }
  }
  const SigpipeGuard guard;  // also of the I/O thread, which starts here
  try {
    GlooMesh mesh = OpenMesh(options, deadline);
    if (absl::Status connected = ConnectPeers(options, mesh, store, deadline); !connected.ok()) {
      return connected;
    }
    return mesh;
  } catch (const std::exception& error) {
    const std::string address =
        options.interface.empty() ? options.bind_address : options.interface;
    const std::string message = absl::StrCat("connecting from ", address, ": ", error.what());
    return deadline.HasPassed() ? absl::DeadlineExceededError(message)
                                : absl::UnavailableError(message);
  }
}

}  // namespace sluice
