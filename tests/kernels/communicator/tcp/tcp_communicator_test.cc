// Who may join a group over TCP, with real handshakes over loopback. What the calls of those who
// joined owe their callers is in communicator_test.cc.
#include "kernels/communicator/tcp/tcp_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/time/clock.h"
#include "kernels/communicator/memory_rendezvous_store.h"
#include "kernels/communicator/tcp/rank_hello.h"
#include "tests/kernels/communicator_calls.h"
#include "tests/kernels/rank_certificates.h"
#include "tests/kernels/testing/emulator.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(20);
// For ranks that wait in vain, but not before they have shaken hands.
const absl::Duration kShort = absl::Milliseconds(IsEmulated() ? 8'000 : 800);

absl::Status Join(const TcpOptions& options, RendezvousStore& store,
                  absl::Duration timeout = kLong) {
  return JoinTcp(options, store, Deadline::After(timeout)).status();
}

TEST(JoinTcpTest, RefusesOptionsOutOfRange) {
  MemoryRendezvousStore store;
  for (const TcpOptions& options :
       {TcpOptions{.group = ""}, TcpOptions{.group = "g", .rank = 2, .size = 2},
        TcpOptions{.group = "g", .rank = -1}, TcpOptions{.group = "g", .size = 0},
        TcpOptions{.group = "g", .bind_address = "localhost"},
        TcpOptions{.group = "g", .bind_address = ""},
        TcpOptions{.group = "g", .bind_address = "0.0.0.0", .trusted_network = true},
        TcpOptions{.group = "g", .bind_address = "::", .trusted_network = true}}) {
    const absl::Status status = Join(options, store);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
}

TEST(JoinTcpTest, LeavesLoopbackOnlyOverTlsOrInATrustedNetwork) {
  MemoryRendezvousStore store;
  for (const std::string address : {"10.1.2.3", "fd00::1"}) {
    TcpOptions options = {.group = "g", .bind_address = address};
    const absl::Status status = Join(options, store);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.ToString(), AllOf(HasSubstr("certificates"), HasSubstr("trusted_network")));
    options.tls = RankCertificates::Shared().Right();
    // It comes as far as to find that this host has no such address.
    EXPECT_TRUE(absl::IsUnavailable(Join(options, store)));
    options.tls.reset();
    options.trusted_network = true;
    EXPECT_TRUE(absl::IsUnavailable(Join(options, store)));
  }
  EXPECT_TRUE(Join({.group = "g", .bind_address = "127.0.0.2"}, store).ok());
  EXPECT_TRUE(Join({.group = "h", .interface = "lo"}, store).ok());
}

TEST(JoinTcpTest, TellsThatAnAddressIsNotOfThisHost) {
  MemoryRendezvousStore store;
  // Reserved for documentation, so no host has it.
  absl::Status status =
      Join({.group = "g", .size = 2, .bind_address = "192.0.2.1", .trusted_network = true}, store);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("cannot bind to 192.0.2.1: Cannot assign"));
  status = Join({.group = "g", .interface = "nowhere0", .trusted_network = true}, store);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("no network interface 'nowhere0'"));
}

TEST(JoinTcpTest, NamesTheRankThatDoesNotCome) {
  MemoryRendezvousStore store;
  const absl::Status status =
      Join({.group = "g", .rank = 1, .size = 2}, store, absl::Milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("rank 1 of 2 in 'g'"), HasSubstr("'g/0'")));
}

// Once while it waits for an address, and once for a connection; by nothing else can it end.
TEST(JoinTcpTest, EndsWhenToldToStop) {
  for (const bool is_known : {false, true}) {
    MemoryRendezvousStore store;
    if (is_known) {
      const RankAddress silent = {
          .size = 2, .host = "127.0.0.1", .port = 1, .token = {}, .wiring = ClaimOf({}, {})};
      ASSERT_TRUE(store.Set("g/1", Encode(silent)).ok());
    }
    std::stop_source stop;
    absl::Status joined;
    std::thread rank([&] {
      joined =
          JoinTcp({.group = "g", .size = 2}, store, Deadline::Never(), stop.get_token()).status();
    });
    ASSERT_TRUE(store.Get("g/0", Deadline::After(kLong), {}).ok()) << "it has begun";
    stop.request_stop();
    rank.join();
    EXPECT_TRUE(absl::IsCancelled(joined)) << joined;
    EXPECT_THAT(joined.ToString(), HasSubstr("joining: told to stop"));
  }
}

TEST(JoinTcpTest, RefusesARankThatIsThere) {
  MemoryRendezvousStore store;
  ASSERT_TRUE(store.Set("g/1", "an earlier rank 1").ok());
  const absl::Status status = Join({.group = "g", .rank = 1, .size = 2}, store);
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("'g/1'"));
}

TEST(JoinTcpTest, RefusesAPeerOfAnotherGroup) {
  const RankAddress right = {
      .size = 2, .host = "127.0.0.1", .port = 1, .token = {}, .wiring = ClaimOf({}, {})};
  RankAddress larger = right;
  larger.size = 4;
  RankAddress encrypted = right;
  encrypted.tls = true;
  const std::pair<std::string, std::string> cases[] = {
      {Encode(larger), "rank 1 joined a group of 4, this rank one of 2"},
      {Encode(encrypted), "rank 1 speaks TLS, this rank plaintext"},
      {"addresses of another kind", "what rank 1 left is not the address of a rank"}};
  for (const auto& [left, told] : cases) {
    MemoryRendezvousStore store;
    ASSERT_TRUE(store.Set("g/1", left).ok());
    const absl::Status status = Join({.group = "g", .rank = 0, .size = 2}, store);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.ToString(), HasSubstr(told));
  }
}

TEST(JoinTcpTest, TellsThatARankToDialIsGone) {
  MemoryRendezvousStore store;
  ASSERT_TRUE(store
                  .Set("g/0", Encode({.size = 2,
                                      .host = "127.0.0.1",
                                      .port = 1,
                                      .token = {},
                                      .wiring = ClaimOf({}, {})}))
                  .ok());
  const absl::Status status = Join({.group = "g", .rank = 1, .size = 2}, store);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("rank 0 at 127.0.0.1 port 1: Connection refused"));
}

// Two ranks with certificates of their own; what each end found, and that a call passed.
class HandshakeTest : public ::testing::Test {
 protected:
  struct Outcome {
    absl::Status accepting;  // of rank 0
    absl::Status dialling;   // of rank 1
  };

  static absl::Status JoinAndCall(int rank, const RankTls& tls, RendezvousStore& store,
                                  absl::Duration timeout) {
    const auto joined = JoinTcp({.group = "g", .rank = rank, .size = 2, .tls = tls}, store,
                                Deadline::After(timeout));
    if (!joined.ok()) return joined.status();
    return MakeCheckedCall(**joined, {.kind = CallKind::kAllGather, .bytes = 100'000});
  }

  static Outcome Meet(const RankTls& accepting, const RankTls& dialling, absl::Duration timeout) {
    MemoryRendezvousStore store;
    Outcome outcome;
    std::thread other([&] { outcome.dialling = JoinAndCall(1, dialling, store, timeout); });
    outcome.accepting = JoinAndCall(0, accepting, store, timeout);
    other.join();
    return outcome;
  }

  // A rank that should not be let in, at either end.
  static void ExpectRefused(const RankTls& wrong, const std::string& why) {
    const RankTls right = RankCertificates::Shared().Right();
    const Outcome dialled = Meet(right, wrong, kShort);
    EXPECT_TRUE(absl::IsDeadlineExceeded(dialled.accepting)) << dialled.accepting;
    EXPECT_THAT(dialled.accepting.ToString(),
                AllOf(HasSubstr("no connection in time with rank 1"), HasSubstr(why)));
    EXPECT_FALSE(dialled.dialling.ok());
    const Outcome accepted = Meet(wrong, right, kShort);
    EXPECT_TRUE(absl::IsUnavailable(accepted.dialling)) << accepted.dialling;
    EXPECT_THAT(accepted.dialling.ToString(),
                AllOf(HasSubstr("connecting to rank 0"), HasSubstr(why)));
    EXPECT_FALSE(accepted.accepting.ok());
  }

  RankCertificates& certificates() { return RankCertificates::Shared(); }
};

TEST_F(HandshakeTest, LetsShardsInByDnsNameOrUri) {
  const RankTls uri =
      certificates().Issue("uri", {.names = {"URI:spiffe://sluice.internal/shard"}});
  const Outcome outcome = Meet(certificates().Right(), uri, kLong);
  EXPECT_TRUE(outcome.accepting.ok()) << outcome.accepting;
  EXPECT_TRUE(outcome.dialling.ok()) << outcome.dialling;
}

TEST_F(HandshakeTest, RefusesAnotherRole) {
  ExpectRefused(certificates().Issue("sampler", {.names = {"DNS:sampler.sluice.internal"}}),
                "its names (sampler.sluice.internal) do not make it shard of sluice.internal");
  ExpectRefused(certificates().Issue("nobody", {}), "do not make it shard");
}

TEST_F(HandshakeTest, RefusesAnotherAuthority) {
  TestAuthority other(certificates().folder(), "other-authority");
  TlsFiles files = other.Issue("foreign", {.names = {"DNS:shard.sluice.internal"}});
  // Takes ours, so that only its own certificate is at fault.
  RankTls foreign = certificates().Right();
  foreign.certificate = files.certificate;
  foreign.key = files.key;
  ExpectRefused(foreign, "certificate is refused: ");
}

TEST_F(HandshakeTest, RefusesWhatHasExpiredOrIsNotValidYet) {
  const absl::Time now = absl::Now();
  ExpectRefused(certificates().Issue("expired", {.names = {"DNS:shard.sluice.internal"},
                                                 .from = now - absl::Hours(2),
                                                 .to = now - absl::Hours(1)}),
                "certificate has expired");
  ExpectRefused(certificates().Issue("early", {.names = {"DNS:shard.sluice.internal"},
                                               .from = now + absl::Hours(1),
                                               .to = now + absl::Hours(2)}),
                "certificate is not yet valid");
}

TEST_F(HandshakeTest, TakesNewFilesAtTheNextJoin) {
  const RankTls rotated = certificates().Issue(
      "rotated", {.names = {"DNS:shard.sluice.internal"}, .to = absl::Now() - absl::Minutes(1)});
  EXPECT_FALSE(Meet(rotated, certificates().Right(), kShort).dialling.ok());
  certificates().Issue("rotated", {.names = {"DNS:shard.sluice.internal"}});
  const Outcome outcome = Meet(rotated, certificates().Right(), kLong);
  EXPECT_TRUE(outcome.accepting.ok()) << outcome.accepting;
  EXPECT_TRUE(outcome.dialling.ok()) << outcome.dialling;
}

TEST_F(HandshakeTest, TellsWhichFileIsWrong) {
  const RankTls right = certificates().Right();
  const std::string broken = certificates().folder() + "/broken.pem";
  std::ofstream(broken) << "no PEM";
  for (std::string RankTls::*file : {&RankTls::certificate, &RankTls::key, &RankTls::authority}) {
    for (const std::string& path : {broken, certificates().folder() + "/missing.pem"}) {
      RankTls wrong = right;
      wrong.*file = path;
      MemoryRendezvousStore store;
      const absl::Status status = Join({.group = "g", .tls = wrong}, store);
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      EXPECT_THAT(status.ToString(), HasSubstr(path));
    }
  }
  RankTls unlike = right;
  unlike.key = certificates().Issue("unlike", {}).key;
  MemoryRendezvousStore store;
  EXPECT_TRUE(absl::IsFailedPrecondition(Join({.group = "g", .tls = unlike}, store)));
}

// Somebody who is no rank and has found the port of rank 0.
class StrangerTest : public HandshakeTest {
 protected:
  void NewGroup() { store_ = std::make_unique<MemoryRendezvousStore>(); }
  void StartRankZero(bool tls, absl::Duration timeout) {
    rank_zero_ = std::thread([this, tls, timeout] {
      TcpOptions options = {.group = "g", .rank = 0, .size = 2};
      if (tls) options.tls = certificates().Right();
      auto joined = JoinTcp(options, *store_, Deadline::After(timeout));
      status_ = joined.status();
      if (joined.ok())
        status_ = MakeCheckedCall(**joined, {.kind = CallKind::kAllGather, .bytes = 100'000});
    });
    address_ = *ParseRankAddress(*store_->Get("g/0", Deadline::After(kLong), {}));
  }
  absl::Status EndOfRankZero() {
    rank_zero_.join();
    return status_;
  }
  // A rank 1 that never dials, so that rank 0 waits for strangers alone.
  void PretendRankOne(bool tls) {
    ASSERT_TRUE(store_
                    ->Set("g/1", Encode({.tls = tls,
                                         .size = 2,
                                         .host = "127.0.0.1",
                                         .port = 1,
                                         .token = {},
                                         .wiring = ClaimOf({}, {})}))
                    .ok());
  }
  Socket DialRankZero() const { return *Dial(*SocketAddress::Parse(address_.host, address_.port)); }
  // Greets and reads until the other end closes; what it answered.
  static std::size_t Greet(TcpStream& stream, const RankHello& hello) {
    const RankHelloBytes bytes = Encode(hello);
    std::size_t sent = 0;
    std::size_t answered = 0;
    bool is_connected = false;
    while (true) {
      if (!is_connected) {
        const absl::StatusOr<bool> connected = stream.Handshake();
        if (!connected.ok()) return answered;
        is_connected = *connected;
      } else if (sent < bytes.size()) {
        const auto moved = stream.Write(absl::MakeConstSpan(bytes).subspan(sent), {});
        if (!moved.ok()) return answered;
        sent += *moved;
      } else {
        std::byte answer[64];
        const auto moved = stream.Read(absl::MakeSpan(answer), {});
        if (!moved.ok()) return answered;
        answered += *moved;
      }
      pollfd awaited = {.fd = stream.fd(), .events = stream.awaited_events(), .revents = 0};
      poll(&awaited, 1, 50);
    }
  }

  std::unique_ptr<MemoryRendezvousStore> store_ = std::make_unique<MemoryRendezvousStore>();
  RankAddress address_;

 private:
  std::thread rank_zero_;
  absl::Status status_;
};

TEST_F(StrangerTest, WithoutTheTokenIsRefused) {
  for (const bool tls : {false, true}) {
    NewGroup();
    PretendRankOne(tls);
    StartRankZero(tls, kShort);
    std::unique_ptr<TcpStream> stream =
        tls ? MakeTlsStream(DialRankZero(), *TlsContext::Load(certificates().Right()),
                            TlsEnd::kDialled)
            : MakePlainStream(DialRankZero());
    EXPECT_EQ(Greet(*stream, {.token = NewRankToken(), .rank = 1, .size = 2, .wiring = {}}), 0u);
    const absl::Status status = EndOfRankZero();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(status.ToString(), HasSubstr("it does not know this rank's token"));
  }
}

TEST_F(StrangerTest, WithTheTokenMustBeAPlausibleRank) {
  for (const RankHello& hello :
       {RankHello{.token = {}, .rank = 0, .size = 2, .wiring = {}},
        RankHello{.token = {}, .rank = 2, .size = 2, .wiring = {}},
        RankHello{.token = {}, .rank = 0xffffffff, .size = 2, .wiring = {}},
        RankHello{.token = {}, .rank = 1, .size = 3, .wiring = {}}}) {
    NewGroup();
    PretendRankOne(false);
    StartRankZero(false, kShort);
    RankHello told = hello;
    told.token = address_.token;
    told.wiring = ClaimOf({}, address_.token);
    const std::unique_ptr<TcpStream> stream = MakePlainStream(DialRankZero());
    EXPECT_EQ(Greet(*stream, told), 0u);
    const absl::Status status = EndOfRankZero();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(status.ToString(),
                AnyOf(HasSubstr("it says that it is rank"), HasSubstr("its group has 3 ranks")));
  }
}

TEST_F(StrangerTest, WithoutACertificateIsRefusedThoughItKnowsTheToken) {
  PretendRankOne(true);
  StartRankZero(true, kShort);
  const Socket socket = DialRankZero();
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL* const ssl = SSL_new(context);
  SSL_set_fd(ssl, socket.fd());
  SSL_set_connect_state(ssl);
  const RankHelloBytes hello =
      Encode(RankHello{.token = address_.token, .rank = 1, .size = 2, .wiring = {}});
  const absl::Time end = absl::Now() + kLong;
  int result = -1;
  while (result <= 0 && absl::Now() < end) {
    result = SSL_write(ssl, hello.data(), hello.size());
    pollfd awaited = {.fd = socket.fd(), .events = POLLIN, .revents = 0};
    if (result <= 0) poll(&awaited, 1, 50);
  }
  const absl::Status status = EndOfRankZero();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("peer did not return a certificate"));
  SSL_free(ssl);
  SSL_CTX_free(context);
}

TEST_F(StrangerTest, HarmsNobodyWhoBelongsThere) {
  StartRankZero(true, kLong);
  std::vector<Socket> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(DialRankZero());
  const std::unique_ptr<TcpStream> plain = MakePlainStream(DialRankZero());
  std::thread babbler([&] { Greet(*plain, {}); });
  const absl::Status rank_one = JoinAndCall(1, certificates().Right(), *store_, kLong);
  EXPECT_TRUE(rank_one.ok()) << rank_one;
  EXPECT_TRUE(EndOfRankZero().ok());
  babbler.join();
}

}  // namespace
}  // namespace sluice::testing
