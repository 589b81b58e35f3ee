#include <poll.h>
#include <sys/uio.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "kernels/communicator/tcp/tcp_stream.h"

namespace sluice {
namespace {

class PlainStream final : public TcpStream {
 public:
  explicit PlainStream(Socket socket) : socket_(std::move(socket)) {}

  absl::StatusOr<bool> Handshake() override { return true; }

  absl::StatusOr<std::size_t> Write(absl::Span<const std::byte> first,
                                    absl::Span<const std::byte> second) override {
    awaited_events_ = POLLOUT;
    // Only read from.
    iovec pieces[2] = {{const_cast<std::byte*>(first.data()), first.size()},
                       {const_cast<std::byte*>(second.data()), second.size()}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    return Moved(sendmsg(socket_.fd(), &message, MSG_NOSIGNAL));
  }

  absl::StatusOr<std::size_t> Read(absl::Span<std::byte> first,
                                   absl::Span<std::byte> second) override {
    awaited_events_ = POLLIN;
    iovec pieces[2] = {{first.data(), first.size()}, {second.data(), second.size()}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    const ssize_t count = recvmsg(socket_.fd(), &message, 0);
    if (count == 0) return absl::UnavailableError("it has closed its connection");
    return Moved(count);
  }

  short awaited_events() const override { return awaited_events_; }
  int fd() const override { return socket_.fd(); }

 private:
  static absl::StatusOr<std::size_t> Moved(ssize_t count) {
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
    return absl::UnavailableError(std::generic_category().message(errno));
  }

  const Socket socket_;
  short awaited_events_ = 0;
};

}  // namespace

std::unique_ptr<TcpStream> MakePlainStream(Socket socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace sluice
