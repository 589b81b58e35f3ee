// Bytes as an HTTP/2 connection of the public listener: after the client's preface and settings
// come arbitrary ones. Whatever they are, the server closes that connection in the end or waits for
// more, and the next stranger is served.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "kernels/check.h"
#include "services/listener/connection_guard.h"
#include "services/rpc/server.h"
#include "sluice/v1/generation.grpc.pb.h"

namespace {

constexpr char kOpening[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
constexpr int kHearsWithinMs = 10'000;

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  SLUICE_CHECK(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  const std::string opening(kOpening, sizeof(kOpening));  // with the last zero of the frame
  SLUICE_CHECK(send(fd, opening.data(), opening.size(), MSG_NOSIGNAL) > 0);
  return fd;
}

// Whether the server says something, or closes the connection.
bool Hears(int fd) {
  pollfd ready = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&ready, 1, kHearsWithinMs) == 1;
}

int StartServer() {
  // Large enough for the connections of a fuzzer, which come from one host.
  static auto& guard = *new sluice::ConnectionGuard(
      {.limits = {.connections = 1 << 20, .connections_per_host = 1 << 20}});
  static auto& service = *new sluice::v1::GenerationService::CallbackService;
  static auto& server = *sluice::Server::Start({.address = "127.0.0.1:0",
                                                .services = {&service},
                                                .max_receive_bytes = 1 << 20,
                                                .guard = &guard,
                                                .services_admit = true,
                                                .trusts_admitted = false})
                             ->release();
  int port = 0;
  SLUICE_CHECK(absl::SimpleAtoi(server.address().substr(server.address().rfind(':') + 1), &port));
  return port;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int port = StartServer();
  const int hostile = Connect(port);
  // A server that has closed the connection already has answered.
  [[maybe_unused]] const ssize_t sent = send(hostile, data, size, MSG_NOSIGNAL);
  SLUICE_CHECK(Hears(hostile));
  close(hostile);
  const int stranger = Connect(port);
  SLUICE_CHECK(Hears(stranger));
  close(stranger);
  return 0;
}
