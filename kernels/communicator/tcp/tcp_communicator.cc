#include "kernels/communicator/tcp/tcp_communicator.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/communicator/adaptive_spin.h"
#include "kernels/communicator/collective_call.h"
#include "kernels/communicator/peer_communicator.h"
#include "kernels/communicator/poll_timeout.h"
#include "kernels/communicator/tcp/link.h"
#include "kernels/communicator/tcp/mesh.h"
#include "kernels/communicator/tcp/socket_address.h"

namespace sluice {
namespace {

class TcpCommunicator final : public PeerCommunicator {
 public:
  TcpCommunicator(const TcpOptions& options, Mesh mesh);

  absl::Status Check() override;

 private:
  absl::Status BroadcastAmongPeers(absl::Span<std::byte> data, int root,
                                   Deadline deadline) override;
  absl::Status GatherFromPeers(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                               Deadline deadline) override;
  absl::Status ExchangeWithPeers(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                                 Deadline deadline) override;
  void LeavePeers(const absl::Status& status) override;

  // The header of this rank's next call.
  LinkHeader NextCall(CollectiveOperation operation, int root, std::size_t bytes);
  // Moves the messages that were started until all are through.
  absl::Status Complete(const LinkHeader& call, Deadline deadline);
  // Moves what can be moved now; true where that was anything, or a peer has failed.
  bool Advance();
  bool Done() const;
  void Sleep(Deadline deadline);
  std::string AwaitedRanks() const;

  // By rank; this rank's own is null. Their sockets are disconnected from any thread, all else is the
  // rank's thread's.
  std::vector<std::unique_ptr<Link>> links_;
  AdaptiveSpin spin_;
  std::uint64_t num_calls_ = 0;
  absl::Status peers_fault_;
  std::vector<pollfd> awaited_;
};

TcpCommunicator::TcpCommunicator(const TcpOptions& options, Mesh mesh)
    : PeerCommunicator(options.group, options.wiring, options.rank, options.size),
      spin_({.ranks_on_host = mesh.ranks_on_host}) {
  for (std::unique_ptr<TcpStream>& stream : mesh.streams) {
    links_.push_back(stream == nullptr ? nullptr : std::make_unique<Link>(std::move(stream)));
  }
}

// Safe from any thread while the socket is open, and ends the wait of both its ends. A reset, where
// the system has it, also fails a peer that only sends: it would hear nothing of a shutdown.
void Disconnect(int fd) {
  const sockaddr nobody = {.sa_family = AF_UNSPEC, .sa_data = {}};
  if (connect(fd, &nobody, sizeof(nobody)) != 0) shutdown(fd, SHUT_RDWR);
}

void TcpCommunicator::LeavePeers(const absl::Status& /*status*/) {
  for (const std::unique_ptr<Link>& link : links_) {
    if (link != nullptr) Disconnect(link->fd());
  }
}

absl::Status TcpCommunicator::Check() {
  if (absl::Status failure = Failure(); !failure.ok()) return failure;
  for (int peer = 0; peer < size(); ++peer) {
    if (links_[peer] == nullptr) continue;
    pollfd link = {.fd = links_[peer]->fd(), .events = POLLRDHUP, .revents = 0};
    if (poll(&link, 1, /*timeout=*/0) == 0) continue;
    const std::string lost = absl::StrCat("lost rank ", peer, ": the connection is closed");
    return Fail(WithContext(absl::UnavailableError(lost), "between calls"));
  }
  return absl::OkStatus();
}

LinkHeader TcpCommunicator::NextCall(CollectiveOperation operation, int root, std::size_t bytes) {
  return {.call = num_calls_++,
          .operation = operation,
          .root = static_cast<std::uint32_t>(root),
          .bytes = bytes};
}

absl::Status TcpCommunicator::BroadcastAmongPeers(absl::Span<std::byte> data, int root,
                                                  Deadline deadline) {
  const LinkHeader call = NextCall(kBroadcast, root, data.size());
  if (rank() != root) {
    links_[root]->Receive(call, data);
    return Complete(call, deadline);
  }
  for (const std::unique_ptr<Link>& link : links_) {
    if (link != nullptr) link->Send(call, data);
  }
  return Complete(call, deadline);
}

absl::Status TcpCommunicator::GatherFromPeers(absl::Span<const std::byte> sent,
                                              absl::Span<std::byte> received, Deadline deadline) {
  const std::size_t bytes = sent.size();
  const LinkHeader call = NextCall(kAllGather, 0, bytes);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    links_[peer]->Send(call, sent);
    links_[peer]->Receive(call, received.subspan(bytes * peer, bytes));
  }
  return Complete(call, deadline);
}

absl::Status TcpCommunicator::ExchangeWithPeers(absl::Span<const std::byte> sent,
                                                absl::Span<std::byte> received, Deadline deadline) {
  const std::size_t part = sent.size() / size();
  const LinkHeader call = NextCall(kAllToAll, 0, part);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    links_[peer]->Send(call, sent.subspan(part * peer, part));
    links_[peer]->Receive(call, received.subspan(part * peer, part));
  }
  return Complete(call, deadline);
}

absl::Status TcpCommunicator::Complete(const LinkHeader& call, Deadline deadline) {
  const auto fail = [&](const absl::Status& status) {
    return Fail(WithContext(status, DescribeCollective(call.operation, call.root, call.bytes)));
  };
  bool advanced = Advance();
  while (true) {
    if (!peers_fault_.ok()) return fail(peers_fault_);
    if (Done()) return absl::OkStatus();
    if (deadline.HasPassed()) {
      return fail(absl::DeadlineExceededError(
          absl::StrCat("no answer in time from rank ", AwaitedRanks())));
    }
    if (!advanced && !spin_.Find([this] { return Advance(); })) Sleep(deadline);
    advanced = Advance();
  }
}

bool TcpCommunicator::Advance() {
  bool advanced = false;
  for (int peer = 0; peer < size(); ++peer) {
    Link* const link = links_[peer].get();
    if (link == nullptr || link->done()) continue;
    const absl::StatusOr<bool> moved = link->Advance();
    if (!moved.ok()) {
      peers_fault_ =
          absl::Status(moved.status().code(),
                       absl::IsInternal(moved.status())
                           ? absl::StrCat("rank ", peer, " ", moved.status().message())
                           : absl::StrCat("lost rank ", peer, ": ", moved.status().message()));
      return true;
    }
    advanced |= *moved;
  }
  return advanced;
}

bool TcpCommunicator::Done() const {
  return std::all_of(links_.begin(), links_.end(), [](const std::unique_ptr<Link>& link) {
    return link == nullptr || link->done();
  });
}

void TcpCommunicator::Sleep(Deadline deadline) {
  awaited_.clear();
  for (const std::unique_ptr<Link>& link : links_) {
    if (link == nullptr || link->done()) continue;
    awaited_.push_back({.fd = link->fd(), .events = link->awaited_events(), .revents = 0});
  }
  poll(awaited_.data(), awaited_.size(), PollTimeout(deadline));
}

std::string TcpCommunicator::AwaitedRanks() const {
  std::string ranks;
  for (int peer = 0; peer < size(); ++peer) {
    if (links_[peer] == nullptr || links_[peer]->done()) continue;
    absl::StrAppend(&ranks, ranks.empty() ? "" : ", ", peer);
  }
  return ranks;
}

absl::Status ValidateAddress(const TcpOptions& options) {
  const absl::StatusOr<SocketAddress> address = options.interface.empty()
                                                    ? SocketAddress::Parse(options.bind_address, 0)
                                                    : SocketAddress::OfInterface(options.interface);
  if (!address.ok()) return address.status();
  if (address->IsWildcard()) {
    return absl::InvalidArgumentError(absl::StrCat("bind_address '", options.bind_address,
                                                   "' is none that peers can connect to"));
  }
  if (address->IsLoopback() || options.tls.has_value() || options.trusted_network) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("communicator '", options.group, "' would exchange unencrypted bytes at ",
                   address->host(), ": give the ranks certificates, bind to loopback, or set ",
                   "trusted_network where only the ranks can reach it"));
}

absl::Status Validate(const TcpOptions& options) {
  if (options.group.empty()) {
    return absl::InvalidArgumentError("the communicator's group name is empty");
  }
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", options.rank, " of communicator '",
                                                   options.group, "' is not in 0 to ",
                                                   options.size - 1));
  }
  return ValidateAddress(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> JoinTcp(const TcpOptions& options,
                                                      RendezvousStore& store, Deadline deadline,
                                                      const std::stop_token& stop) {
  if (absl::Status valid = Validate(options); !valid.ok()) return valid;
  absl::StatusOr<Mesh> mesh = ConnectMesh(options, store, deadline, stop);
  if (!mesh.ok()) {
    return absl::Status(mesh.status().code(),
                        absl::StrCat("rank ", options.rank, " of ", options.size, " in '",
                                     options.group, "', joining: ", mesh.status().message()));
  }
  return std::make_unique<TcpCommunicator>(options, *std::move(mesh));
}

}  // namespace sluice
