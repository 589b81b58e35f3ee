// The server over sockets, with a handler that says what it got.
#include "services/gateway/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tests/testing/http_client.h"

namespace sluice::http {
namespace {

using ::sluice::testing::HttpClient;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ConnectionContext Context(Handler handler) {
  return {.handler = std::move(handler),
          .error_response =
              [](int status, absl::string_view message) {
                return Response{.status = status, .headers = {}, .body = std::string(message)};
              },
          .common_headers = nullptr};
}

void Echo(const std::shared_ptr<Exchange>& exchange) {
  const Request& request = exchange->request();
  exchange->Respond({.status = 200,
                     .headers = {},
                     .body = absl::StrCat(request.method, " ", request.path, " ",
                                          request.body.size(), " from ", request.peer)});
}

std::unique_ptr<Server> Start(ConnectionContext context, uint64_t max_waiting_bytes = 1 << 20) {
  auto server = Server::Start({.address = "127.0.0.1:0",
                               .connections = std::move(context),
                               .max_waiting_bytes = max_waiting_bytes});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

std::string Post(size_t announced, const std::string& body) {
  return absl::StrCat("POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: ", announced, "\r\n\r\n",
                      body);
}

TEST(ServerTest, AnswersClientsThatHaveHalfClosed) {
  std::shared_ptr<Exchange> waiting;
  absl::Notification came;
  const auto server = Start(Context([&](std::shared_ptr<Exchange> exchange) {
    if (exchange->request().path != "/later") return Echo(exchange);
    waiting = std::move(exchange);
    came.Notify();
  }));
  HttpClient client(server->address());
  client.Send("GET /later HTTP/1.1\r\nhost: a\r\n\r\nGET /next HTTP/1.1\r\nhost: a\r\n\r\n");
  client.HalfClose();
  came.WaitForNotification();
  server->loop().After(absl::Milliseconds(20), [&] { Echo(std::exchange(waiting, nullptr)); });
  const std::string answers = client.ReadAll();
  EXPECT_THAT(answers, HasSubstr("GET /later 0"));
  EXPECT_THAT(answers, HasSubstr("GET /next 0"));
  server->Shutdown(absl::Seconds(1));
}

TEST(ServerTest, NoticesClientsThatHaveGone) {
  std::shared_ptr<Exchange> held;
  absl::Notification came;
  absl::Notification gone;
  const auto server = Start(Context([&](std::shared_ptr<Exchange> exchange) {
    exchange->set_on_closed([&] { gone.Notify(); });
    held = std::move(exchange);
    came.Notify();
  }));
  {
    HttpClient client(server->address());
    client.Send("GET /x HTTP/1.1\r\nhost: a\r\n\r\n");
    came.WaitForNotification();
  }
  gone.WaitForNotification();
  server->Shutdown(absl::Seconds(1));
}

TEST(ServerTest, TellsClientsThatHaveHalfClosedWhyTheyAreRefused) {
  ConnectionContext context = Context(Echo);
  const std::string why(300'000, 'w');
  context.refusal = [&](const Request&) {
    return std::optional<Response>({.status = 403, .headers = {}, .body = why});
  };
  const auto server = Start(std::move(context));
  HttpClient client(server->address());
  client.Send(Post(10, "abc"));
  client.HalfClose();
  EXPECT_THAT(client.ReadAll(), HasSubstr(why));
  server->Shutdown(absl::Seconds(1));
}

TEST(ServerTest, ClosesUnfinishedRequestsOfClientsThatEnd) {
  const auto server = Start(Context(Echo));
  HttpClient client(server->address());
  client.Send(Post(10, "abc"));
  client.HalfClose();
  EXPECT_EQ(client.ReadAll(), "");
  server->Shutdown(absl::Seconds(1));
}

TEST(ServerTest, AdmitsLargeBodiesBeforeItReadsThem) {
  ConnectionContext context = Context(Echo);
  std::atomic<int> num_asked{0};
  context.admit = [&](const std::shared_ptr<const Request>& head, Loop& loop,
                      std::function<void(std::optional<Response>)> done) {
    ++num_asked;
    const bool known = head->Header("authorization").has_value();
    loop.Post([known, done = std::move(done)] {
      done(known ? std::nullopt
                 : std::optional<Response>({.status = 401, .headers = {}, .body = "who"}));
    });
  };
  const auto server = Start(std::move(context));
  HttpClient stranger(server->address());
  stranger.Send(Post(1 << 20, ""));  // refused by its head alone
  EXPECT_THAT(stranger.ReadResponse(), StartsWith("HTTP/1.1 401 "));
  HttpClient in_chunks(server->address());
  in_chunks.Send("POST /p HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nfffff\r\n");
  in_chunks.Send(std::string(20 << 10, 'x'));
  EXPECT_THAT(in_chunks.ReadResponse(), StartsWith("HTTP/1.1 401 "));
  HttpClient known(server->address());
  known.Send(absl::StrCat("POST /p HTTP/1.1\r\nhost: a\r\nauthorization: t\r\ncontent-length: ",
                          100'000, "\r\n\r\n", std::string(100'000, 'x')));
  EXPECT_THAT(known.ReadResponse(), HasSubstr("POST /p 100000"));
  EXPECT_EQ(num_asked, 3);
  known.Send(Post(1000, std::string(1000, 'x')));
  EXPECT_THAT(known.ReadResponse(), HasSubstr("POST /p 1000"));
  EXPECT_EQ(num_asked, 3);
  server->Shutdown(absl::Seconds(1));
}

TEST(ServerTest, BodiesShareTheirMemory) {
  MemoryBudget bodies(3 * 400'000);
  ConnectionContext context = Context(Echo);
  context.bodies = &bodies;
  const auto server = Start(std::move(context));
  HttpClient holder(server->address(), "127.0.0.2");
  holder.Send(Post(200'000, "x"));
  while (bodies.used() == 0) absl::SleepFor(absl::Milliseconds(1));
  HttpClient same(server->address(), "127.0.0.2");
  same.Send(Post(200'000, "x"));
  EXPECT_THAT(same.ReadResponse(), StartsWith("HTTP/1.1 503 "));
  HttpClient other(server->address(), "127.0.0.3");
  other.Send(Post(100'000, std::string(100'000, 'x')));
  EXPECT_THAT(other.ReadResponse(), HasSubstr("POST /p 100000 from 127.0.0.3"));
  holder.Send(std::string(199'999, 'x'));
  EXPECT_THAT(holder.ReadResponse(), HasSubstr("POST /p 200000 from 127.0.0.2"));
  server->Shutdown(absl::Seconds(1));
  EXPECT_EQ(bodies.used(), 0);
}

TEST(ServerTest, IdleConnectionsGiveWayToNewOnes) {
  ConnectionContext context = Context(Echo);
  context.limits.max_connections = 8;
  const auto server = Start(std::move(context));
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 40; ++i) {
    idle.push_back(std::make_unique<HttpClient>(server->address(), "127.0.0.2"));
    if (i % 2 == 0) idle.back()->Send("GET /slow HTTP/1.1\r\nx: ");
  }
  HttpClient good(server->address(), "127.0.0.3");
  for (int i = 0; i < 10; ++i) {
    good.Send("GET /g HTTP/1.1\r\nhost: a\r\n\r\n");
    EXPECT_THAT(good.ReadResponse(), HasSubstr("GET /g 0 from 127.0.0.3"));
    idle.push_back(std::make_unique<HttpClient>(server->address(), "127.0.0.2"));
  }
  EXPECT_LE(server->num_connections(), 9);
  EXPECT_GE(server->num_evicted(), 33);
  server->Shutdown(absl::Seconds(1));
}

TEST(ServerTest, UnfinishedHeadersHoldNoMoreThanTheirBytes) {
  const auto server = Start(Context(Echo), /*max_waiting_bytes=*/200'000);
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (int i = 0; i < 30; ++i) {
    slow.push_back(std::make_unique<HttpClient>(server->address(), "127.0.0.2"));
    slow.back()->Send(absl::StrCat("GET / HTTP/1.1\r\nx: ", std::string(20'000, 'x')));
  }
  HttpClient good(server->address(), "127.0.0.3");
  good.Send("GET /g HTTP/1.1\r\nhost: a\r\n\r\n");
  EXPECT_THAT(good.ReadResponse(), HasSubstr("GET /g 0"));
  while (server->num_evicted() < 20) absl::SleepFor(absl::Milliseconds(1));
  server->Shutdown(absl::Seconds(1));
}

TEST(ServerTest, SaysWhetherAStrangerCanConnect) {
  const auto server = Start(Context(Echo));
  EXPECT_TRUE(server->AcceptsStrangers(absl::Seconds(20)));
  EXPECT_TRUE(server->IsResponsive(absl::Seconds(20)));
  absl::Notification go_on;
  server->loop().Post([&] { go_on.WaitForNotification(); });
  EXPECT_FALSE(server->IsResponsive(absl::Milliseconds(20)));
  EXPECT_FALSE(server->AcceptsStrangers(absl::Milliseconds(20)));
  go_on.Notify();
  EXPECT_TRUE(server->AcceptsStrangers(absl::Seconds(20)));
  server->Shutdown(absl::Seconds(1));
}

TEST(ServerTest, CountsRefusedCallers) {
  ConnectionContext context = Context([](const std::shared_ptr<Exchange>& exchange) {
    exchange->Respond({.status = 401, .headers = {}, .body = ""});
  });
  std::atomic<int> num_refused{0};
  context.on_unauthorized = [&](const Request& request, Loop&) {
    EXPECT_EQ(request.peer, "127.0.0.1");
    ++num_refused;
  };
  const auto server = Start(std::move(context));
  HttpClient client(server->address());
  client.Send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  EXPECT_THAT(client.ReadResponse(), StartsWith("HTTP/1.1 401 "));
  EXPECT_EQ(num_refused, 1);
  server->Shutdown(absl::Seconds(1));
}

}  // namespace
}  // namespace sluice::http
