// Completions over HTTP by plain sockets, for gateway.py: a client that costs about what `sluice
// bench` does over gRPC, so that the two differ in the server's way alone. Bodies of requests are the
// lines of its standard input; prints {"seconds": in all, "first_ms": median to the first event}.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

ABSL_FLAG(int, port, 0, "Of the gateway, on 127.0.0.1.");
ABSL_FLAG(int, streams, 64, "Answers that are written at a time.");

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kEvent = "data: {";
constexpr std::string_view kEnd = "data: [DONE]";

[[noreturn]] void Fail(std::string_view what) {
  std::cerr << "http_load: " << what << "\n";
  std::exit(1);
}

double Milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

std::string RequestOf(const std::string& body) {
  return absl::StrCat(
      "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n",
      "content-length: ", body.size(), "\r\n\r\n", body);
}

// A connection that sends one request after the other.
class Stream {
 public:
  explicit Stream(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      Fail("nobody listens");
    }
  }
  ~Stream() { ::close(socket_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int socket() const { return socket_; }

  void Begin(const std::string& request) {
    began_ = Clock::now();
    waits_ = true;
    tail_.clear();
    if (::send(socket_, request.data(), request.size(), 0) != std::ssize(request)) Fail("send");
  }

  // Reads what there is; true at the end of the answer. Times of first tokens go to `firsts`.
  bool Read(std::vector<double>& firsts) {
    const ssize_t size = ::recv(socket_, buffer_, sizeof(buffer_), 0);
    if (size <= 0) Fail("the gateway closed a connection");
    tail_.append(buffer_, size);
    if (waits_ && tail_.find(kEvent) != std::string::npos) {
      firsts.push_back(Milliseconds(Clock::now() - began_));
      waits_ = false;
    }
    const bool ended = tail_.find(kEnd) != std::string::npos;
    if (ended && waits_) Fail(absl::StrCat("no token came: ", tail_));
    if (!waits_) tail_.erase(0, tail_.size() - std::min(tail_.size(), kEnd.size()));
    return ended;
  }

 private:
  const int socket_;
  Clock::time_point began_;
  bool waits_ = false;  // for the first token
  std::string tail_;
  char buffer_[1 << 14];
};

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Sends completions to a gateway on 127.0.0.1, so many at a time, and says how long they "
      "took. "
      "Takes bodies of requests from standard input, a line each; prints {\"seconds\": in all, "
      "\"first_ms\": median to the first event}.\n"
      "  sluice-http-load --port 8080 --streams 64 < bodies.jsonl");
  absl::FlagsUsageConfig usage;
  usage.contains_help_flags = [](absl::string_view file) {
    return absl::EndsWith(file, "http_load.cc");
  };
  absl::SetFlagsUsageConfig(usage);
  absl::ParseCommandLine(argc, argv);
  std::vector<std::string> requests;
  for (std::string body; std::getline(std::cin, body);) requests.push_back(RequestOf(body));
  if (requests.empty()) Fail("no request came on standard input");
  std::reverse(requests.begin(), requests.end());
  const int num_requests = static_cast<int>(requests.size());
  const int num_streams = std::min(absl::GetFlag(FLAGS_streams), num_requests);
  std::vector<double> firsts;
  std::vector<std::unique_ptr<Stream>> streams;
  const int poll = ::epoll_create1(0);
  const Clock::time_point began = Clock::now();
  const auto begin_next = [&requests](Stream& stream) {
    stream.Begin(requests.back());
    requests.pop_back();
  };
  for (int i = 0; i < num_streams; ++i) {
    streams.push_back(std::make_unique<Stream>(absl::GetFlag(FLAGS_port)));
    epoll_event event = {.events = EPOLLIN, .data = {.ptr = streams.back().get()}};
    ::epoll_ctl(poll, EPOLL_CTL_ADD, streams.back()->socket(), &event);
    begin_next(*streams.back());
  }
  for (int num_ended = 0; num_ended < num_requests;) {
    epoll_event events[64];
    const int count = ::epoll_wait(poll, events, std::size(events), 60'000);
    if (count <= 0) Fail("nothing came for a minute");
    for (int i = 0; i < count; ++i) {
      auto& stream = *static_cast<Stream*>(events[i].data.ptr);
      if (!stream.Read(firsts)) continue;
      ++num_ended;
      if (!requests.empty()) begin_next(stream);
    }
  }
  const double seconds = Milliseconds(Clock::now() - began) / 1000;
  std::nth_element(firsts.begin(), firsts.begin() + firsts.size() / 2, firsts.end());
  std::cout << R"({"seconds": )" << seconds << R"(, "first_ms": )" << firsts[firsts.size() / 2]
            << "}\n";
}
