// A server whose connections the acceptor takes, and peers that speak HTTP/2 by hand.
#include "services/listener/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"
#include "services/listener/connection_guard.h"
#include "services/rpc/server.h"

namespace sluice {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Frame(char kind, char flags, int stream, const std::string& payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(payload.size() >> shift);
  frame += {kind, flags};
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
  return frame + payload;
}

std::string Opening() { return kPreface + Frame(4, 0, 0, ""); }

// HEADERS of a call whose method nobody serves; begins a stream all the same.
std::string Call(int stream) {
  std::string block;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{":method", "POST"},
                                                        {":scheme", "http"},
                                                        {":path", "/grpc.health.v1.Health/Watch"},
                                                        {":authority", "it"},
                                                        {"content-type", "application/grpc"},
                                                        {"te", "trailers"}}) {
    block += '\0';
    block += static_cast<char>(name.size());
    block += name;
    block += static_cast<char>(value.size());
    block += value;
  }
  return Frame(1, 4, stream, block);
}

std::string Reset(int stream) { return Frame(3, 0, stream, std::string("\0\0\0\x08", 4)); }

// A TCP connection to a port of this host.
class Peer {
 public:
  Peer() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  Peer(Peer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Peer() { Close(); }

  bool Connect(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  bool Send(const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t sent = send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += static_cast<size_t>(sent);
    }
    return true;
  }
  // Whether something comes, or the end, within ten seconds.
  bool Hears() {
    std::array<char, 4096> bytes;
    return Wait() && recv(fd_, bytes.data(), bytes.size(), 0) > 0;
  }
  // Whether the server closes the connection within ten seconds.
  bool IsClosed() {
    std::array<char, 4096> bytes;
    while (Wait()) {
      if (recv(fd_, bytes.data(), bytes.size(), 0) <= 0) return true;
    }
    return false;
  }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  bool Wait() const {
    pollfd ready = {.fd = fd_, .events = POLLIN, .revents = 0};
    return poll(&ready, 1, 10'000) == 1;
  }

  int fd_;
};

class AcceptorTest : public ::testing::Test {
 protected:
  void Start(ListenerLimits limits = {}) {
    guard_ = std::make_unique<ConnectionGuard>(
        ConnectionGuard::Options{.limits = limits,
                                 .most_streams_per_connection = 200,
                                 .on_event = [this](const auto& event) {
                                   absl::MutexLock lock(&mutex_);
                                   events_.push_back(event.event + ": " + event.cause);
                                 }});
    server_ = *Server::Start({.address = "127.0.0.1:0",
                              .guard = guard_.get(),
                              .services_admit = true,
                              .trusts_admitted = false});
    server_->SetServing(true);
    ASSERT_TRUE(
        absl::SimpleAtoi(server_->address().substr(server_->address().rfind(':') + 1), &port_));
  }
  // Whether a stranger gets an answer.
  bool IsOpenForStrangers() {
    Peer stranger;
    return stranger.Connect(port_) && stranger.Send(Opening()) && stranger.Hears();
  }
  bool HasReported(const std::string& event) {
    absl::MutexLock lock(&mutex_);
    return std::find(events_.begin(), events_.end(), event) != events_.end();
  }

  int port_ = 0;
  absl::Mutex mutex_;
  std::vector<std::string> events_;
  std::unique_ptr<ConnectionGuard> guard_;
  std::unique_ptr<Server> server_;
};

TEST_F(AcceptorTest, AcceptsAgainAfterTheEndOfDescriptors) {
  Start();
  std::vector<Peer> peers(60);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  close(next);
  const rlimit tight = {.rlim_cur = static_cast<rlim_t>(next) + 5, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  for (Peer& peer : peers) EXPECT_TRUE(peer.Connect(port_));
  EXPECT_TRUE(peers.back().IsClosed());
  for (Peer& peer : peers) peer.Close();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(HasReported("connection-refused: no descriptor is free"));
  EXPECT_TRUE(IsOpenForStrangers());
}

TEST_F(AcceptorTest, IdleConnectionsOfAHostMakeRoomForItsNext) {
  Start({.connections = 20, .connections_per_host = 10});
  std::vector<Peer> peers(10);
  for (Peer& peer : peers) EXPECT_TRUE(peer.Connect(port_));
  EXPECT_TRUE(IsOpenForStrangers());
  EXPECT_TRUE(
      HasReported("connection-closed: it made room for another before it was authenticated"));
}

TEST_F(AcceptorTest, ClosesAConnectionWithManyStreamsThatNobodyHasAdmitted) {
  Start();
  Peer peer;
  ASSERT_TRUE(peer.Connect(port_));
  std::string calls = Opening();
  for (int i = 0; i < 150; ++i) calls += Call(2 * i + 1);
  EXPECT_TRUE(peer.Send(calls));
  EXPECT_TRUE(peer.IsClosed());
  EXPECT_TRUE(HasReported("connection-closed: it has too many streams before it is authenticated"));
  EXPECT_TRUE(IsOpenForStrangers());
}

TEST_F(AcceptorTest, ClosesAConnectionThatResetsItsStreams) {
  Start();
  Peer peer;
  ASSERT_TRUE(peer.Connect(port_));
  ASSERT_TRUE(peer.Send(Opening()) && peer.Hears());
  bool sent = true;
  for (int i = 0; i < 3000 && sent; ++i) {
    sent = peer.Send(Call(2 * i + 1) + Reset(2 * i + 1));
    usleep(20);
  }
  EXPECT_TRUE(!sent || peer.IsClosed());
  EXPECT_TRUE(IsOpenForStrangers());
}

TEST_F(AcceptorTest, ClosesAConnectionThatSendsMuchAndSaysNothing) {
  Start();
  Peer peer;
  ASSERT_TRUE(peer.Connect(port_));
  ASSERT_TRUE(peer.Send(Opening()));
  bool sent = true;
  // Frames of a kind that is ignored.
  for (int i = 0; i < 1000 && sent; ++i)
    sent = peer.Send(Frame(0x20, 0, 0, std::string(1000, 'x')));
  EXPECT_TRUE(!sent || peer.IsClosed());
  EXPECT_TRUE(HasReported("connection-closed: it sends too much before it is authenticated") ||
              HasReported("connection-closed: its host sends too much before it is authenticated"));
}

TEST_F(AcceptorTest, UnixSocketsAreServedAndTheirFilesRemoved) {
  const std::string path = ::testing::TempDir() + "/acceptor-" + std::to_string(getpid());
  {
    const auto server = Server::Start({.address = "unix:" + path});
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_EQ(access(path.c_str(), F_OK), 0);
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

// A server that is shut down neither serves nor closes a connection that it is given then.
TEST_F(AcceptorTest, ConnectionsThatComeWhileItStopsAreClosed) {
  for (int round = 0; round < 20; ++round) {
    Start();
    std::vector<Peer> peers(1);
    ASSERT_TRUE(peers[0].Connect(port_));
    std::thread come([&] {
      while (peers.size() < 2000) {
        Peer peer;
        if (!peer.Connect(port_)) return;
        peers.push_back(std::move(peer));
      }
    });
    server_->Shutdown(absl::ZeroDuration());
    server_.reset();
    come.join();
    for (Peer& peer : peers) {
      // To one that was about to be accepted the kernel says so only when something comes of it.
      peer.Send("P");
      ASSERT_TRUE(peer.IsClosed()) << "round " << round;
    }
  }
}

TEST_F(AcceptorTest, NothingListensOnceItStops) {
  Start();
  server_->Shutdown(absl::ZeroDuration());
  server_.reset();
  Peer peer;
  EXPECT_FALSE(peer.Connect(port_));
}

}  // namespace
}  // namespace sluice
