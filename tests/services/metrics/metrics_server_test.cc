// A process's metrics as Prometheus gets them: over HTTP.
#include "services/metrics/metrics_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/metrics/process_metrics.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Get(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = absl::StrCat("GET ", path, " HTTP/1.0\r\n\r\n");
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;) {
    answer.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return answer;
}

TEST(MetricsServer, ServesWhatAProcessSaysOfItself) {
  std::atomic<bool> serving = false;
  const auto server = MetricsServer::Start(
      "127.0.0.1:0",
      {std::make_shared<ProcessMetrics>("shard", [&serving] { return serving.load(); })});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string before = Get((*server)->port(), "/metrics");
  EXPECT_THAT(before, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(before, HasSubstr("sluice_serving{service=\"shard\"} 0\n"));
  EXPECT_THAT(before, HasSubstr("# TYPE process_cpu_seconds_total counter\n"));
  EXPECT_THAT(before, HasSubstr("process_resident_memory_bytes "));
  serving = true;
  EXPECT_THAT(Get((*server)->port(), "/metrics"),
              HasSubstr("sluice_serving{service=\"shard\"} 1\n"));
  EXPECT_THAT(Get((*server)->port(), "/elsewhere"), HasSubstr(" 404 "));
}

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

TEST(MetricsServer, WaitsForNoClient) {
  const auto server = MetricsServer::Start(
      "127.0.0.1:0", {std::make_shared<ProcessMetrics>("shard", [] { return true; })});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<int> stalled;
  for (int i = 0; i < 200; ++i) {
    stalled.push_back(Connect((*server)->port()));
    constexpr absl::string_view kWhole = "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n";
    const absl::string_view part = kWhole.substr(0, i % 3 == 0 ? 0 : i % 3 == 1 ? 9 : 100);
    EXPECT_GE(send(stalled.back(), part.data(), part.size(), MSG_NOSIGNAL), -1);
    if (i % 50 != 3) continue;
    EXPECT_THAT(Get((*server)->port(), "/metrics"), StartsWith("HTTP/1.1 200"));
  }
  EXPECT_THAT(Get((*server)->port(), "/metrics"), StartsWith("HTTP/1.1 200"));
  for (const int fd : stalled) close(fd);
}

TEST(MetricsServer, RefusesOtherMethodsAndLongRequests) {
  const auto server = MetricsServer::Start("127.0.0.1:0", {});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto answer = [&](const std::string& request) {
    const int fd = Connect((*server)->port());
    for (size_t sent = 0; sent < request.size();) {
      const ssize_t count = send(fd, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
      if (count < 0) break;
      sent += static_cast<size_t>(count);
    }
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;) {
      text.append(buffer, static_cast<size_t>(n));
    }
    close(fd);
    return text;
  };
  EXPECT_THAT(answer("POST /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(answer("HEAD /metrics?x HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(answer(std::string(1 << 20, 'x')), "");
}

TEST(MetricsServer, NamesAnAddressInUse) {
  const auto first = MetricsServer::Start("127.0.0.1:0", {});
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = absl::StrCat("127.0.0.1:", (*first)->port());
  const absl::Status second = MetricsServer::Start(address, {}).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.message()), HasSubstr(address));
}

}  // namespace
}  // namespace sluice
