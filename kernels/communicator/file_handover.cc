#include "kernels/communicator/file_handover.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/communicator/poll_timeout.h"

namespace sluice {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(100);
// A rank sends its request as soon as it is connected.
constexpr absl::Duration kRequestTime = absl::Seconds(5);
// Of connections that have sent nothing yet, beyond those of the group's own ranks.
constexpr std::size_t kMaxStrangers = 32;
// Between two looks whether rank 0 listens.
constexpr auto kRetryEvery = std::chrono::milliseconds(1);

constexpr std::array<char, 8> kMagic = {'s', 'l', 'f', 'i', 'l', 'e', '0', '1'};

// Both messages pass whole (SOCK_SEQPACKET), between processes of one host.
struct Request {
  std::array<char, 8> magic;
  WiringIdentity wiring;
  std::int32_t rank;
  std::int32_t num_ranks;
  std::uint64_t layout;
};

struct Answer {
  std::int32_t code;  // absl::StatusCode; kOk: the file comes with it
  std::array<char, 508> message;
};

absl::Status SystemError(absl::string_view doing, int error) {
  return absl::UnavailableError(absl::StrCat(doing, ": ", std::strerror(error)));
}

FileDescriptor NewSocket() {
  return FileDescriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// A name in the abstract namespace begins with a zero byte.
struct AbstractAddress {
  explicit AbstractAddress(const std::string& name)
      : size(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) {
    SLUICE_CHECK(name.size() <= HandoverSpec::kMaxNameBytes);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  const socklen_t size;
};

// The kernel's word on who connected, or who listens.
absl::Status CheckUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return SystemError("the peer's user can't be read", errno);
  }
  if (peer.uid == geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("a process of user ", peer.uid, "; accepted: user ", geteuid()));
}

void SendAnswer(int socket, const absl::Status& status, int file) {
  Answer answer{.code = static_cast<std::int32_t>(status.code()), .message = {}};
  const std::string message(status.message());
  message.copy(answer.message.data(), answer.message.size() - 1);
  iovec part = {.iov_base = &answer, .iov_len = sizeof(answer)};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr sent{};
  sent.msg_iov = &part;
  sent.msg_iovlen = 1;
  if (status.ok()) {
    sent.msg_control = control.data();
    sent.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&sent);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof(file));
  }
  // A peer that is gone needs none; one that is a rank is missed by the group.
  [[maybe_unused]] const ssize_t n = sendmsg(socket, &sent, MSG_NOSIGNAL);
}

// All descriptors that came with a message; a peer may send several.
std::vector<FileDescriptor> FilesOf(msghdr& received) {
  std::vector<FileDescriptor> files;
  for (cmsghdr* header = CMSG_FIRSTHDR(&received); header != nullptr;
       header = CMSG_NXTHDR(&received, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(header) + i * sizeof(int), sizeof(file));
      files.emplace_back(file);
    }
  }
  return files;
}

absl::StatusOr<FileDescriptor> ReceiveAnswer(int socket) {
  Answer answer{};
  iovec part = {.iov_base = &answer, .iov_len = sizeof(answer)};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr received{};
  received.msg_iov = &part;
  received.msg_iovlen = 1;
  received.msg_control = control.data();
  received.msg_controllen = control.size();
  const ssize_t n = recvmsg(socket, &received, MSG_CMSG_CLOEXEC);
  if (n < 0) return SystemError("rank 0 does not answer", errno);
  std::vector<FileDescriptor> files = FilesOf(received);
  if (n == 0) return absl::UnavailableError("rank 0 ended the connection");
  if (n != sizeof(answer)) return absl::UnavailableError("rank 0 sent what is no answer");
  if (answer.code != static_cast<std::int32_t>(absl::StatusCode::kOk)) {
    answer.message.back() = '\0';
    return absl::Status(static_cast<absl::StatusCode>(answer.code),
                        absl::StrCat("rank 0 refused this rank: ", answer.message.data()));
  }
  if (files.size() != 1) return absl::UnavailableError("rank 0 sent no file");
  return std::move(files.front());
}

absl::Status StoppedWaiting() { return absl::CancelledError("told to stop joining"); }

absl::Status NoAnswer(const std::string& ranks) {
  return absl::DeadlineExceededError(absl::StrCat("no answer in time from rank ", ranks));
}

// A connection to rank 0, once it listens.
absl::StatusOr<FileDescriptor> Connect(const std::string& name, Deadline deadline,
                                       const std::stop_token& stop) {
  const AbstractAddress address(name);
  std::string last_refusal;
  while (true) {
    FileDescriptor socket = NewSocket();
    if (socket.get() < 0) return SystemError("no socket", errno);
    if (connect(socket.get(), address.get(), address.size) == 0) {
      const absl::Status user = CheckUser(socket.get());
      if (user.ok()) return socket;
      last_refusal = std::string(user.message());
    } else if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) {
      return SystemError("rank 0 can't be reached", errno);
    }
    if (stop.stop_requested()) return StoppedWaiting();
    if (deadline.HasPassed()) {
      return NoAnswer(last_refusal.empty() ? "0" : absl::StrCat("0; in its place: ", last_refusal));
    }
    std::this_thread::sleep_for(kRetryEvery);
  }
}

}  // namespace

FileHandover::FileHandover(const HandoverSpec& spec, int file, FileDescriptor listener)
    : spec_(spec),
      file_(file),
      listener_(std::move(listener)),
      has_file_(static_cast<std::size_t>(spec.num_ranks)) {
  has_file_[0] = true;
}

absl::StatusOr<std::unique_ptr<FileHandover>> FileHandover::Listen(const HandoverSpec& spec,
                                                                   int file) {
  FileDescriptor listener = NewSocket();
  if (listener.get() < 0) return SystemError("no socket", errno);
  const AbstractAddress address(spec.name);
  if (bind(listener.get(), address.get(), address.size) != 0) {
    if (errno != EADDRINUSE) return SystemError("no socket", errno);
    return absl::AlreadyExistsError(absl::StrCat("rank 0 of '", spec.name, "' has already joined"));
  }
  if (listen(listener.get(), SOMAXCONN) != 0) return SystemError("no socket", errno);
  return std::unique_ptr<FileHandover>(new FileHandover(spec, file, std::move(listener)));
}

absl::Status FileHandover::Serve(Deadline deadline, const std::stop_token& stop,
                                 absl::FunctionRef<absl::Status()> look) {
  const StopEvent stop_event(stop);
  while (true) {
    AcceptGuests();
    AdvanceGuests();
    if (Complete()) return absl::OkStatus();
    if (stop.stop_requested()) return StoppedWaiting();
    if (absl::Status seen = look(); !seen.ok()) return seen;
    if (deadline.HasPassed()) {
      return NoAnswer(absl::StrCat(
          MissingRanks(), last_refusal_.empty() ? "" : "; turned away meanwhile: ", last_refusal_));
    }
    const Deadline next_look = Deadline::After(kLookEvery);
    Wait(next_look.time() < deadline.time() ? next_look : deadline, stop_event);
  }
}

void FileHandover::AcceptGuests() {
  while (guests_.size() < kMaxStrangers + has_file_.size()) {
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) return;
    if (const absl::Status user = CheckUser(socket.get()); !user.ok()) {
      last_refusal_ = std::string(user.message());
      continue;
    }
    guests_.push_back({.socket = std::move(socket), .limit = Deadline::After(kRequestTime)});
  }
}

void FileHandover::AdvanceGuests() {
  guests_.remove_if([this](Guest& guest) { return Advance(guest); });
}

bool FileHandover::Advance(Guest& guest) {
  std::array<char, sizeof(Request)> bytes;
  const ssize_t n = recv(guest.socket.get(), bytes.data(), bytes.size(), MSG_TRUNC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    if (!guest.limit.HasPassed()) return false;
    last_refusal_ = "a process that sent no request in time";
    return true;
  }
  if (n <= 0) return true;
  const bool fits = static_cast<std::size_t>(n) == bytes.size();
  const absl::Status status =
      CheckRequest(fits ? absl::string_view(bytes.data(), bytes.size()) : absl::string_view());
  if (!status.ok()) last_refusal_ = std::string(status.message());
  SendAnswer(guest.socket.get(), status, file_);
  return true;
}

absl::Status FileHandover::CheckRequest(absl::string_view bytes) {
  Request request{};
  if (bytes.size() != sizeof(request)) {
    return absl::InvalidArgumentError("what it sent is no request of a rank");
  }
  std::memcpy(&request, bytes.data(), sizeof(request));
  if (request.magic != kMagic) {
    return absl::InvalidArgumentError("what it sent is no request of a rank");
  }
  if (absl::Status same = CheckSameWiring(request.wiring, spec_.wiring); !same.ok()) return same;
  if (request.layout != spec_.layout || request.num_ranks != spec_.num_ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ranks disagree: rank 0 has ", spec_.describe_layout(spec_.layout),
                     ", rank ", request.rank, " expects ", spec_.describe_layout(request.layout)));
  }
  if (request.rank < 1 || request.rank >= spec_.num_ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", request.rank, "; accepted: 1 to ", spec_.num_ranks - 1));
  }
  const auto rank = static_cast<std::size_t>(request.rank);
  if (has_file_[rank]) {
    return absl::AlreadyExistsError(absl::StrCat("rank ", rank, " has already joined"));
  }
  has_file_[rank] = true;
  return absl::OkStatus();
}

bool FileHandover::Complete() const {
  return std::all_of(has_file_.begin(), has_file_.end(), [](bool has) { return has; });
}

std::string FileHandover::MissingRanks() const {
  std::string missing;
  for (std::size_t rank = 0; rank < has_file_.size(); ++rank) {
    if (!has_file_[rank]) absl::StrAppend(&missing, missing.empty() ? "" : ", ", rank);
  }
  return missing;
}

void FileHandover::Wait(Deadline deadline, const StopEvent& stop) const {
  std::vector<pollfd> awaited = {{.fd = stop.fd(), .events = POLLIN, .revents = 0}};
  if (guests_.size() < kMaxStrangers + has_file_.size()) {
    awaited.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
  }
  for (const Guest& guest : guests_) {
    awaited.push_back({.fd = guest.socket.get(), .events = POLLIN, .revents = 0});
  }
  poll(awaited.data(), awaited.size(), PollTimeout(deadline));
}

absl::StatusOr<FileDescriptor> TakeFile(const HandoverSpec& spec, int rank, Deadline deadline,
                                        const std::stop_token& stop) {
  const absl::StatusOr<FileDescriptor> socket = Connect(spec.name, deadline, stop);
  if (!socket.ok()) return socket.status();
  const Request request = {.magic = kMagic,
                           .wiring = spec.wiring,
                           .rank = rank,
                           .num_ranks = spec.num_ranks,
                           .layout = spec.layout};
  if (send(socket->get(), &request, sizeof(request), MSG_NOSIGNAL) < 0) {
    return SystemError("rank 0 ended the connection", errno);
  }
  const StopEvent stop_event(stop);
  std::array<pollfd, 2> awaited = {{{.fd = socket->get(), .events = POLLIN, .revents = 0},
                                    {.fd = stop_event.fd(), .events = POLLIN, .revents = 0}}};
  while (true) {
    const int ready = poll(awaited.data(), awaited.size(), PollTimeout(deadline));
    if (ready > 0 && awaited[0].revents != 0) return ReceiveAnswer(socket->get());
    if (stop.stop_requested()) return StoppedWaiting();
    if (deadline.HasPassed()) return NoAnswer("0");
  }
}

}  // namespace sluice
