#include "kernels/communicator/tcp/mesh.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/communicator/poll_timeout.h"
#include "kernels/communicator/stop_event.h"
#include "kernels/communicator/tcp/introduction.h"
#include "kernels/communicator/tcp/rank_hello.h"
#include "kernels/communicator/tcp/socket_address.h"

namespace sluice {
namespace {

// All addresses are known by then, so a rank that dials introduces itself at once; whoever takes
// longer is none, and must not stand in the way.
constexpr absl::Duration kIntroductionTime = absl::Seconds(5);
// Of connections that have not proven anything, beyond those of the group's own ranks.
constexpr std::size_t kMaxStrangers = 32;

std::string Key(const TcpOptions& options, int rank) {
  return absl::StrCat(options.group, "/", rank);
}

absl::Status Annotated(const absl::Status& status, absl::string_view by) {
  return absl::Status(status.code(), absl::StrCat(by, ": ", status.message()));
}

absl::StatusOr<Socket> ListenFor(const TcpOptions& options) {
  const absl::StatusOr<SocketAddress> address = options.interface.empty()
                                                    ? SocketAddress::Parse(options.bind_address, 0)
                                                    : SocketAddress::OfInterface(options.interface);
  if (!address.ok()) return address.status();
  absl::StatusOr<Socket> listener = Listen(*address);
  if (listener.ok()) return listener;
  return absl::UnavailableError(
      absl::StrCat(listener.status().message(), "; an address of this host is needed"));
}

absl::Status CheckAddress(const RankAddress& theirs, int peer, const RankAddress& ours,
                          const WiringIdentity& wiring) {
  const absl::Status same = CheckClaim(theirs.wiring, theirs.token, wiring);
  if (!same.ok()) return Annotated(same, absl::StrCat("what rank ", peer, " left"));
  if (theirs.size != ours.size) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", peer, " joined a group of ", theirs.size, ", this rank one of ", ours.size));
  }
  if (theirs.tls != ours.tls) {
    const auto what = [](bool tls) { return tls ? "TLS" : "plaintext"; };
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", peer, " speaks ", what(theirs.tls), ", this rank ", what(ours.tls),
                     ": all ranks need certificates, or all a network that is trusted"));
  }
  return absl::OkStatus();
}

// Leaves this rank's address and waits for all others'.
absl::StatusOr<RankGroup> MeetRanks(const TcpOptions& options, const Socket& listener,
                                    RendezvousStore& store, Deadline deadline,
                                    const std::stop_token& stop) {
  const absl::StatusOr<SocketAddress> own = AddressOf(listener);
  if (!own.ok()) return own.status();
  RankGroup group = {.wiring = options.wiring,
                     .rank = options.rank,
                     .addresses = std::vector<RankAddress>(options.size)};
  RankAddress& ours = group.addresses[options.rank];
  const RankToken token = NewRankToken();
  ours = {.tls = options.tls.has_value(),
          .size = options.size,
          .host = own->host(),
          .port = own->port(),
          .token = token,
          .wiring = ClaimOf(options.wiring, token)};
  if (absl::Status set = store.Set(Key(options, options.rank), Encode(ours)); !set.ok()) return set;
  for (int peer = 0; peer < options.size; ++peer) {
    if (peer == options.rank) continue;
    const absl::StatusOr<std::string> left = store.Get(Key(options, peer), deadline, stop);
    if (!left.ok()) return left.status();
    absl::StatusOr<RankAddress> theirs = ParseRankAddress(*left);
    if (!theirs.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("what rank ", peer, " left is ", theirs.status().message()));
    }
    if (absl::Status fits = CheckAddress(*theirs, peer, ours, options.wiring); !fits.ok())
      return fits;
    group.addresses[peer] = *std::move(theirs);
  }
  return group;
}

class MeshBuilder {
 public:
  MeshBuilder(const RankGroup& group, const Socket& listener, std::shared_ptr<const TlsContext> tls,
              const std::stop_token& stop)
      : group_(group), listener_(listener), tls_(std::move(tls)), stop_(stop), stop_event_(stop) {
    mesh_.streams.resize(group.size());
  }

  // Dials the lower ranks, and accepts until the higher ones are there.
  absl::StatusOr<Mesh> Build(Deadline deadline);

 private:
  struct Guest {
    Introduction introduction;
    std::string address;
    Deadline limit;
  };

  absl::Status DialLowerRanks();
  void AcceptGuests();
  std::unique_ptr<TcpStream> MakeStream(Socket socket, TlsEnd end) const;

  absl::Status AdvanceDialled();
  void AdvanceGuests();
  void TurnAway(Guest& guest, const absl::Status& reason);

  bool Complete() const;
  std::string MissingRanks() const;
  void Wait(Deadline deadline) const;

  const RankGroup& group_;
  const Socket& listener_;
  const std::shared_ptr<const TlsContext> tls_;  // null: plaintext
  const std::stop_token stop_;
  const StopEvent stop_event_;

  Mesh mesh_;
  std::list<Introduction> dialled_;
  std::list<Guest> guests_;
  // Open until all is over: closing one at once could overtake what it was told.
  std::vector<std::unique_ptr<TcpStream>> turned_away_;
  std::string last_refusal_;
};

absl::StatusOr<Mesh> MeshBuilder::Build(Deadline deadline) {
  if (absl::Status dialled = DialLowerRanks(); !dialled.ok()) return dialled;
  while (true) {
    AcceptGuests();
    if (absl::Status advanced = AdvanceDialled(); !advanced.ok()) return advanced;
    AdvanceGuests();
    if (Complete()) break;
    if (stop_.stop_requested()) {
      return absl::CancelledError(absl::StrCat("told to stop waiting for rank ", MissingRanks()));
    }
    if (deadline.HasPassed()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no connection in time with rank ", MissingRanks(),
                       last_refusal_.empty() ? "" : "; turned away meanwhile: ", last_refusal_));
    }
    Wait(deadline);
  }
  const std::string& here = group_.addresses[group_.rank].host;
  mesh_.ranks_on_host = static_cast<int>(
      std::count_if(group_.addresses.begin(), group_.addresses.end(),
                    [&here](const RankAddress& address) { return address.host == here; }));
  return std::move(mesh_);
}

std::unique_ptr<TcpStream> MeshBuilder::MakeStream(Socket socket, TlsEnd end) const {
  if (tls_ == nullptr) return MakePlainStream(std::move(socket));
  return MakeTlsStream(std::move(socket), tls_, end);
}

absl::Status MeshBuilder::DialLowerRanks() {
  for (int peer = 0; peer < group_.rank; ++peer) {
    const RankAddress& there = group_.addresses[peer];
    const absl::StatusOr<SocketAddress> address = SocketAddress::Parse(there.host, there.port);
    if (!address.ok()) return absl::UnavailableError(address.status().message());
    absl::StatusOr<Socket> socket = Dial(*address);
    if (!socket.ok()) return socket.status();
    dialled_.emplace_back(group_, MakeStream(*std::move(socket), TlsEnd::kDialled), peer);
  }
  return absl::OkStatus();
}

void MeshBuilder::AcceptGuests() {
  while (guests_.size() < kMaxStrangers + group_.size()) {
    Socket socket = Accept(listener_);
    if (socket.fd() < 0) return;
    const absl::StatusOr<SocketAddress> address = PeerOf(socket);
    if (!address.ok()) continue;
    guests_.push_back(
        {.introduction = Introduction(group_, MakeStream(std::move(socket), TlsEnd::kAccepted)),
         .address = address->ToString(),
         .limit = Deadline::After(kIntroductionTime)});
  }
}

absl::Status MeshBuilder::AdvanceDialled() {
  for (auto it = dialled_.begin(); it != dialled_.end();) {
    const absl::StatusOr<bool> done = it->Advance();
    if (!done.ok()) {
      const RankAddress& there = group_.addresses[it->peer()];
      return Annotated(done.status(), absl::StrCat("connecting to rank ", it->peer(), " at ",
                                                   there.host, " port ", there.port));
    }
    if (*done) mesh_.streams[it->peer()] = it->TakeStream();
    it = *done ? dialled_.erase(it) : std::next(it);
  }
  return absl::OkStatus();
}

void MeshBuilder::AdvanceGuests() {
  for (auto it = guests_.begin(); it != guests_.end();) {
    absl::StatusOr<bool> done = it->introduction.Advance();
    if (done.ok() && !*done && it->limit.HasPassed()) {
      done = absl::DeadlineExceededError("it did not introduce itself in time");
    }
    if (done.ok() && *done && mesh_.streams[it->introduction.peer()] != nullptr) {
      done = absl::AlreadyExistsError(
          absl::StrCat("rank ", it->introduction.peer(), " is there already"));
    }
    if (done.ok() && !*done) {
      ++it;
      continue;
    }
    if (done.ok()) {
      mesh_.streams[it->introduction.peer()] = it->introduction.TakeStream();
    } else {
      TurnAway(*it, done.status());
    }
    it = guests_.erase(it);
  }
}

void MeshBuilder::TurnAway(Guest& guest, const absl::Status& reason) {
  last_refusal_ = absl::StrCat(guest.address, ": ", reason.message());
  if (turned_away_.size() == kMaxStrangers) turned_away_.clear();
  turned_away_.push_back(guest.introduction.TakeStream());
  shutdown(turned_away_.back()->fd(), SHUT_WR);
}

bool MeshBuilder::Complete() const {
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (peer != group_.rank && mesh_.streams[peer] == nullptr) return false;
  }
  return true;
}

std::string MeshBuilder::MissingRanks() const {
  std::string missing;
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (peer == group_.rank || mesh_.streams[peer] != nullptr) continue;
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", peer);
  }
  return missing;
}

void MeshBuilder::Wait(Deadline deadline) const {
  std::vector<pollfd> awaited = {{.fd = stop_event_.fd(), .events = POLLIN, .revents = 0}};
  if (guests_.size() < kMaxStrangers + group_.size()) {
    awaited.push_back({.fd = listener_.fd(), .events = POLLIN, .revents = 0});
  }
  const auto await = [&awaited](const Introduction& introduction) {
    const TcpStream& stream = introduction.stream();
    awaited.push_back({.fd = stream.fd(), .events = stream.awaited_events(), .revents = 0});
  };
  for (const Introduction& introduction : dialled_) await(introduction);
  for (const Guest& guest : guests_) {
    await(guest.introduction);
    if (guest.limit.time() < deadline.time()) deadline = guest.limit;
  }
  poll(awaited.data(), awaited.size(), PollTimeout(deadline));
}

}  // namespace

absl::StatusOr<Mesh> ConnectMesh(const TcpOptions& options, RendezvousStore& store,
                                 Deadline deadline, const std::stop_token& stop) {
  std::shared_ptr<const TlsContext> tls;
  if (options.tls.has_value()) {
    absl::StatusOr<std::shared_ptr<const TlsContext>> loaded = TlsContext::Load(*options.tls);
    if (!loaded.ok()) return loaded.status();
    tls = *std::move(loaded);
  }
  const absl::StatusOr<Socket> listener = ListenFor(options);
  if (!listener.ok()) return listener.status();
  const absl::StatusOr<RankGroup> group = MeetRanks(options, *listener, store, deadline, stop);
  if (!group.ok()) return group.status();
  return MeshBuilder(*group, *listener, std::move(tls), stop).Build(deadline);
}

}  // namespace sluice
