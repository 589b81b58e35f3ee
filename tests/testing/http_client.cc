#include "tests/testing/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "kernels/check.h"

namespace sluice::testing {
namespace {

sockaddr_in AddressOf(const std::string& host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  SLUICE_CHECK(inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1);
  return address;
}

}  // namespace

HttpClient::HttpClient(const std::string& address, const std::string& from) {
  const size_t colon = address.rfind(':');
  int port = 0;
  SLUICE_CHECK(absl::SimpleAtoi(address.substr(colon + 1), &port));
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SLUICE_CHECK(fd_ >= 0);
  const int on = 1;
  // Ports are free by pairs of addresses.
  setsockopt(fd_, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  const sockaddr_in own = AddressOf(from, 0);
  SLUICE_CHECK(bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) == 0);
  const sockaddr_in server = AddressOf(address.substr(0, colon), port);
  SLUICE_CHECK(connect(fd_, reinterpret_cast<const sockaddr*>(&server), sizeof(server)) == 0);
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

HttpClient::~HttpClient() { close(fd_); }

bool HttpClient::Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void HttpClient::HalfClose() { shutdown(fd_, SHUT_WR); }

bool HttpClient::Receive() {
  char buffer[16384];
  const ssize_t count = recv(fd_, buffer, sizeof(buffer), 0);
  if (count <= 0) return false;
  received_.append(buffer, static_cast<size_t>(count));
  return true;
}

std::string HttpClient::ReadAll(int seconds) {
  const timeval timeout = {.tv_sec = seconds, .tv_usec = 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  while (Receive()) {
  }
  return std::exchange(received_, {});
}

std::string HttpClient::ReadResponse() {
  size_t head = std::string::npos;
  while ((head = received_.find("\r\n\r\n")) == std::string::npos) {
    if (!Receive()) return std::exchange(received_, {});
  }
  const std::string fields = absl::AsciiStrToLower(received_.substr(0, head));
  size_t end = head + 4;
  const size_t length = fields.find("\r\ncontent-length: ");
  if (length != std::string::npos) {
    size_t bytes = 0;
    const std::string text =
        fields.substr(length + 18, fields.find("\r\n", length + 2) - length - 18);
    SLUICE_CHECK(absl::SimpleAtoi(text, &bytes));
    end += bytes;
    while (received_.size() < end && Receive()) {
    }
  } else if (absl::StrContains(fields, "transfer-encoding: chunked")) {
    size_t last = 0;
    while ((last = received_.find("0\r\n\r\n", head)) == std::string::npos && Receive()) {
    }
    end = last == std::string::npos ? received_.size() : last + 5;
  }
  std::string response = received_.substr(0, end);
  received_.erase(0, end);
  return response;
}

}  // namespace sluice::testing
