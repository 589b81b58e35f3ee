// Real handshakes over loopback TCP: whoever should be let in is, and nobody else.
#include "services/security/credentials.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "services/common/status.h"
#include "services/rpc/grpc_runtime.h"
#include "services/security/authenticator.h"
#include "tests/testing/test_authority.h"

namespace sluice {
namespace {

using ::testing::AnyOf;
using testing::CertificateSpec;
using ::testing::HasSubstr;
using testing::TestAuthority;

constexpr char kRun[] = "/sluice.v1.StageService/Run";
constexpr char kPush[] = "/sluice.v1.StageService/Push";
constexpr char kHealth[] = "/grpc.health.v1.Health/Check";
constexpr char kGenerate[] = "/sluice.v1.GenerationService/Generate";
constexpr char kAlpha[] = "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8";

// Answers every method; with an authenticator, those that it admits, with the caller's tenant.
class AnyMethod final : public grpc::CallbackGenericService {
 public:
  explicit AnyMethod(const Authenticator* authenticator) : authenticator_(authenticator) {}

 private:
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Call(grpc::Status status) { Finish(std::move(status)); }
    void OnDone() override { delete this; }
  };

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    if (authenticator_ == nullptr) return new Call(grpc::Status::OK);
    const auto caller = authenticator_->Admit(*context);
    if (caller.ok()) context->AddTrailingMetadata("tenant", caller->tenant);
    return new Call(ToGrpc(caller.status()));
  }

  const Authenticator* const authenticator_;
};

class TestServer {
 public:
  explicit TestServer(absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials,
                      const Authenticator* authenticator = nullptr)
      : service_(authenticator) {
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&service_);
    builder.AddListeningPort("127.0.0.1:0", *credentials, &port_);
    server_ = builder.BuildAndStart();
  }

  std::string address() const { return absl::StrCat("localhost:", port_); }

 private:
  AnyMethod service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A connection of its own, shared with no other channel.
std::shared_ptr<grpc::Channel> Connect(
    const TestServer& server,
    absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials) {
  EXPECT_TRUE(credentials.ok()) << credentials.status();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(server.address(), *credentials, arguments);
}

struct Outcome {
  absl::Status status;
  std::string tenant;
};

Outcome Call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
             const std::string& token = "") {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
  if (!token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &response,
                 [&](grpc::Status result) {
                   status = std::move(result);
                   done.Notify();
                 });
  done.WaitForNotification();
  const auto tenant = context.GetServerTrailingMetadata().find("tenant");
  const bool told = tenant != context.GetServerTrailingMetadata().end();
  // A reactor that answers without a message ends a unary call with OK and no response, which the
  // client side calls INTERNAL or UNIMPLEMENTED: it was let in.
  const bool let_in = status.error_code() == grpc::StatusCode::INTERNAL ||
                      status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
  return {let_in ? absl::OkStatus() : FromGrpc(status),
          told ? std::string(tenant->second.data(), tenant->second.size()) : ""};
}

class CredentialsTest : public ::testing::Test {
 protected:
  CredentialsTest() {
    PrepareGrpc();
    std::filesystem::create_directories(folder_);
  }
  ~CredentialsTest() override { std::filesystem::remove_all(folder_); }

  TlsFiles Of(const std::string& role, const std::string& file = "") {
    return authority_.Issue(file.empty() ? role : file,
                            {.common_name = role, .names = {"DNS:" + role + ".sluice.internal"}});
  }

  // A shard of a later stage, and what a peer with these files gets when it calls it.
  absl::Status Shard(const TlsFiles& peer, const std::string& method) {
    const TestServer server(
        PipelineServerCredentials("127.0.0.1:0", Of("shard"), Role::kShard, {Role::kShard}));
    return Call(Connect(server, PipelineChannelCredentials(server.address(), peer, Role::kShard)),
                method)
        .status;
  }

  static std::string Slug() {
    return absl::StrCat(::testing::TempDir(), "/credentials-", getpid());
  }

  const std::string folder_ = [] {
    std::filesystem::create_directories(Slug());
    return Slug();
  }();
  TestAuthority authority_{folder_, "ca"};
  TestAuthority stranger_{folder_, "stranger"};
};

// --- The private plane -------------------------------------------------------------------------

TEST_F(CredentialsTest, TheOrchestratorMayOpenAndTheStageBeforeMayPush) {
  EXPECT_EQ(Shard(Of("orchestrator"), kRun), absl::OkStatus());
  EXPECT_EQ(Shard(Of("shard", "other-shard"), kPush), absl::OkStatus());
  EXPECT_EQ(Shard(Of("orchestrator"), kHealth), absl::OkStatus());
  const TlsFiles by_uri =
      authority_.Issue("by-uri", {.names = {"URI:spiffe://sluice.internal/orchestrator"}});
  EXPECT_EQ(Shard(by_uri, kRun), absl::OkStatus());
}

TEST_F(CredentialsTest, ACallThatIsAnothersIsRefused) {
  const absl::Status push = Shard(Of("orchestrator"), kPush);
  EXPECT_EQ(push.code(), absl::StatusCode::kPermissionDenied) << push;
  EXPECT_THAT(std::string(push.message()),
              HasSubstr("is for shard; the caller's certificate makes it orchestrator"));
  const absl::Status open = Shard(Of("shard", "other-shard"), kRun);
  EXPECT_EQ(open.code(), absl::StatusCode::kPermissionDenied) << open;
  EXPECT_EQ(Shard(Of("orchestrator"), "/sluice.v1.NewService/Any").code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(CredentialsTest, TheWrongRoleOfTheRightAuthorityDoesNotPassTheHandshake) {
  for (const char* role : {"client", "sampler", "tokenizer", "embedding"}) {
    EXPECT_EQ(Shard(Of(role), kRun).code(), absl::StatusCode::kUnavailable) << role;
  }
  const TlsFiles nameless = authority_.Issue("nameless", {.common_name = "orchestrator"});
  EXPECT_EQ(Shard(nameless, kRun).code(), absl::StatusCode::kUnavailable);
  const TlsFiles elsewhere =
      authority_.Issue("elsewhere", {.names = {"DNS:orchestrator.other.internal"}});
  EXPECT_EQ(Shard(elsewhere, kRun).code(), absl::StatusCode::kUnavailable);
}

TEST_F(CredentialsTest, TheWrongAuthorityDoesNotPassTheHandshake) {
  TlsFiles strange = stranger_.Issue("strange", {.names = {"DNS:orchestrator.sluice.internal"}});
  // It believes the server; the server does not believe it.
  strange.authority = authority_.certificate();
  EXPECT_EQ(Shard(strange, kRun).code(), absl::StatusCode::kUnavailable);
  TlsFiles doubting = Of("orchestrator");
  doubting.authority = stranger_.certificate();
  EXPECT_EQ(Shard(doubting, kRun).code(), absl::StatusCode::kUnavailable);
}

TEST_F(CredentialsTest, NoCertificateAndPlaintextDoNotPass) {
  const TestServer server(
      PipelineServerCredentials("127.0.0.1:0", Of("shard"), Role::kShard, {Role::kShard}));
  const auto without =
      ClientChannelCredentials(server.address(), {.tls = {.authority = authority_.certificate()}});
  EXPECT_EQ(Call(Connect(server, without), kRun).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Call(Connect(server, grpc::InsecureChannelCredentials()), kRun).status.code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(CredentialsTest, AnExpiredCertificateDoesNotPass) {
  const TestServer server(
      PipelineServerCredentials("127.0.0.1:0", Of("shard"), Role::kShard, {Role::kShard}));
  // The peer would notice itself, so the credentials are made while its certificate holds.
  const TlsFiles peer = Of("orchestrator", "expiring");
  const auto credentials = PipelineChannelCredentials(server.address(), peer, Role::kShard);
  EXPECT_EQ(Call(Connect(server, credentials), kRun).status, absl::OkStatus());
  authority_.Issue("expiring", {.names = {"DNS:orchestrator.sluice.internal"},
                                .from = absl::Now() - absl::Hours(2),
                                .to = absl::Now() - absl::Hours(1)});
  EXPECT_EQ(PipelineChannelCredentials(server.address(), peer, Role::kShard).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const absl::Time give_up = absl::Now() + absl::Seconds(30);
  absl::Status status;
  do {
    status = Call(Connect(server, credentials), kRun).status;
  } while (status.ok() && absl::Now() < give_up);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST_F(CredentialsTest, AServerInTheWrongRoleIsNotBelieved) {
  const TestServer server(
      PipelineServerCredentials("127.0.0.1:0", Of("client"), Role::kShard, {Role::kShard}));
  const auto orchestrator =
      PipelineChannelCredentials(server.address(), Of("orchestrator"), Role::kShard);
  EXPECT_EQ(Call(Connect(server, orchestrator), kRun).status.code(),
            absl::StatusCode::kUnavailable);
}

// One kind of connection of the private plane.
struct Edge {
  Role dialler;
  Role server;
  RoleSet pushers;  // of the server
  const char* method;
};

constexpr Edge kEdges[] = {
    {Role::kOrchestrator, Role::kTokenizer, {}, "/sluice.v1.TokenizerService/Tokenize"},
    {Role::kOrchestrator, Role::kEmbedding, {}, kRun},
    {Role::kOrchestrator, Role::kShard, {Role::kEmbedding}, kRun},
    {Role::kOrchestrator, Role::kSampler, {Role::kShard}, kRun},
    {Role::kEmbedding, Role::kShard, {Role::kEmbedding}, kPush},
    {Role::kEmbedding, Role::kSampler, {Role::kShard}, "/sluice.v1.ChosenTokensService/Follow"},
    {Role::kShard, Role::kShard, {Role::kShard}, kPush},
    {Role::kShard, Role::kSampler, {Role::kShard}, kPush},
    {Role::kShard, Role::kShard, {Role::kShard}, "/sluice.v1.RendezvousService/PutRendezvous"},
};

TEST_F(CredentialsTest, OnEveryEdgeOnlyTheRoleThatIsDialledIsBelieved) {
  for (const Edge& edge : kEdges) {
    for (const Role answering : kAllRoles) {
      const TestServer server(
          PipelineServerCredentials("127.0.0.1:0", Of(Name(answering)), edge.server, edge.pushers));
      const auto credentials =
          PipelineChannelCredentials(server.address(), Of(Name(edge.dialler)), edge.server);
      const absl::Status status = Call(Connect(server, credentials), edge.method).status;
      EXPECT_EQ(status.code(),
                answering == edge.server ? absl::StatusCode::kOk : absl::StatusCode::kUnavailable)
          << Name(edge.dialler) << " dials " << Name(edge.server) << " by " << edge.method << ", "
          << Name(answering) << " answers: " << status;
    }
  }
}

TEST_F(CredentialsTest, NewFilesCountFromTheNextHandshakeAndOpenConnectionsStay) {
  const TestServer server(PipelineServerCredentials("127.0.0.1:0", Of("shard", "renewed"),
                                                    Role::kShard, {Role::kShard}));
  const auto credentials =
      PipelineChannelCredentials(server.address(), Of("orchestrator"), Role::kShard);
  const std::shared_ptr<grpc::Channel> open = Connect(server, credentials);
  ASSERT_EQ(Call(open, kRun).status, absl::OkStatus());
  // The new one is good for nothing, which is how a new handshake shows that it is in use.
  Of("client", "renewed");
  const absl::Time give_up = absl::Now() + absl::Seconds(30);
  while (Call(Connect(server, credentials), kRun).status.ok() && absl::Now() < give_up) {
  }
  EXPECT_EQ(Call(Connect(server, credentials), kRun).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Call(open, kRun).status, absl::OkStatus());
  Of("shard", "renewed");
  while (!Call(Connect(server, credentials), kRun).status.ok() && absl::Now() < give_up) {
  }
  EXPECT_EQ(Call(Connect(server, credentials), kRun).status, absl::OkStatus());
}

TEST_F(CredentialsTest, TheOtherUsersOfThisHostNeedCertificatesToo) {
  for (const char* address : {"127.0.0.1:0", "[::1]:1", "localhost:1", "10.0.0.1:1"}) {
    for (const absl::Status& status :
         {PipelineServerCredentials(address, {}, Role::kShard).status(),
          PipelineChannelCredentials(address, {}, Role::kShard).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << address;
      EXPECT_THAT(std::string(status.message()), HasSubstr("--tls_cert, --tls_key and --tls_ca"));
    }
  }
  EXPECT_TRUE(PipelineServerCredentials("unix:/a", {}, Role::kShard).ok());
  EXPECT_TRUE(PipelineChannelCredentials("unix:/a", {}, Role::kShard).ok());
}

// --- The public listener -----------------------------------------------------------------------

TEST_F(CredentialsTest, ClientsComeWithATokenOverTls) {
  const std::string tokens = folder_ + "/tokens";
  std::ofstream(tokens) << kAlpha << " search\n";
  const Authenticator authenticator({.tokens = *TokenFile::Open(tokens, nullptr)});
  const TlsFiles files = authority_.Issue("public", {.names = {"DNS:localhost"}});
  const TestServer server(
      PublicServerCredentials(
          "0.0.0.0:0",
          {.tls = {.certificate = files.certificate, .key = files.key}, .tokens = true}),
      &authenticator);
  const auto channel = Connect(
      server,
      ClientChannelCredentials(server.address(), {.tls = {.authority = authority_.certificate()}}));
  const Outcome right = Call(channel, kGenerate, "alpha");
  EXPECT_EQ(right.status, absl::OkStatus());
  EXPECT_EQ(right.tenant, "search");
  EXPECT_EQ(Call(channel, kGenerate, "beta").status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(Call(channel, kGenerate).status.message()),
              HasSubstr("authorization: Bearer TOKEN"));
  // Revoked on the connection that is open.
  std::ofstream(tokens + ".new") << "# none\n";
  std::filesystem::rename(tokens + ".new", tokens);
  EXPECT_EQ(Call(channel, kGenerate, "alpha").status.code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(CredentialsTest, TheServersCertificateMustBeForTheHostThatIsDialled) {
  const TlsFiles files = authority_.Issue("elsewhere", {.names = {"DNS:other.example"}});
  const TestServer server(PublicServerCredentials(
      "127.0.0.1:0", {.tls = {.certificate = files.certificate, .key = files.key}}));
  const auto credentials =
      ClientChannelCredentials(server.address(), {.tls = {.authority = authority_.certificate()}});
  EXPECT_EQ(Call(Connect(server, credentials), kGenerate).status.code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(CredentialsTest, AClientBelievesNoOtherPartOfAPipelineInTheOrchestratorsPlace) {
  const auto call = [&](std::vector<std::string> names, std::optional<Role> wanted) {
    names.push_back("DNS:localhost");
    const TlsFiles files = authority_.Issue("answering", {.names = std::move(names)});
    const TestServer server(PublicServerCredentials(
        "127.0.0.1:0", {.tls = {.certificate = files.certificate, .key = files.key}}));
    const auto credentials = ClientChannelCredentials(
        server.address(), {.tls = {.authority = authority_.certificate()}, .server = wanted});
    return Call(Connect(server, credentials), kGenerate).status.code();
  };
  const auto ok = absl::StatusCode::kOk;
  const auto refused = absl::StatusCode::kUnavailable;
  EXPECT_EQ(call({}, Role::kOrchestrator), ok);
  EXPECT_EQ(call({"DNS:orchestrator.sluice.internal"}, Role::kOrchestrator), ok);
  EXPECT_EQ(call({"DNS:orchestrator.a.b.sluice.internal"}, Role::kOrchestrator), ok);
  EXPECT_EQ(call({"DNS:tokenizer.sluice.internal"}, Role::kOrchestrator), refused);
  EXPECT_EQ(call({"DNS:sampler.a.b.sluice.internal"}, Role::kOrchestrator), refused);
  EXPECT_EQ(call({"URI:spiffe://a.sluice.internal/shard"}, Role::kOrchestrator), refused);
  // `sluice health` asks any part.
  EXPECT_EQ(call({"DNS:tokenizer.sluice.internal"}, std::nullopt), ok);
}

TEST_F(CredentialsTest, ARoleDoesNotReplaceTheHostNameOfAPublicServer) {
  const TlsFiles files = authority_.Issue(
      "elsewhere", {.names = {"DNS:other.example", "DNS:orchestrator.sluice.internal"}});
  const TestServer server(PublicServerCredentials(
      "127.0.0.1:0", {.tls = {.certificate = files.certificate, .key = files.key}}));
  const auto credentials = ClientChannelCredentials(
      server.address(),
      {.tls = {.authority = authority_.certificate()}, .server = Role::kOrchestrator});
  EXPECT_EQ(Call(Connect(server, credentials), kGenerate).status.code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(CredentialsTest, ClientsComeWithACertificateOfTheirRole) {
  const Authenticator authenticator({.certificates = true, .client_domain = "sluice.internal"});
  TlsFiles own =
      authority_.Issue("front", {.names = {"DNS:localhost", "DNS:orchestrator.sluice.internal"}});
  const TestServer server(
      PublicServerCredentials("0.0.0.0:0", {.tls = own, .clients_by_role = true}), &authenticator);
  const auto call = [&](const TlsFiles& files) {
    return Call(Connect(server, ClientChannelCredentials(server.address(), {.tls = files})),
                kGenerate);
  };
  const Outcome client = call(Of("client"));
  EXPECT_EQ(client.status, absl::OkStatus());
  EXPECT_EQ(client.tenant, "client");
  EXPECT_EQ(call(Of("shard")).status.code(), absl::StatusCode::kUnavailable);
  // Its own probes pass the handshake, and are no clients.
  EXPECT_EQ(call(Of("orchestrator")).status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(call({.authority = authority_.certificate()}).status.code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(CredentialsTest, AnAuthorityOfClientsAloneIsNotServedInPlaintext) {
  const TlsFiles authority = {.authority = authority_.certificate()};
  for (const char* address : {"127.0.0.1:0", "0.0.0.0:0"}) {
    for (const bool insecure : {false, true}) {
      const absl::Status status =
          PublicServerCredentials(address, {.tls = authority, .insecure = insecure}).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(status.message()), HasSubstr("--tls_cert"));
    }
  }
  EXPECT_TRUE(PublicServerCredentials("unix:/tmp/x", {.tls = authority}).ok());
}

TEST_F(CredentialsTest, PlaintextBeyondLoopbackIsSaidInSoManyWords) {
  EXPECT_TRUE(PublicServerCredentials("127.0.0.1:0", {}).ok());
  EXPECT_TRUE(PublicServerCredentials("0.0.0.0:0", {.insecure = true}).ok());
  const absl::Status plain = PublicServerCredentials("0.0.0.0:0", {.tokens = true}).status();
  EXPECT_EQ(plain.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(plain.message()), HasSubstr("--insecure_public"));
  const TlsFiles files = Of("client");
  const absl::Status open =
      PublicServerCredentials("0.0.0.0:0",
                              {.tls = {.certificate = files.certificate, .key = files.key}})
          .status();
  EXPECT_EQ(open.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(open.message()), HasSubstr("prove nothing"));
  const absl::Status dial = ClientChannelCredentials("192.0.2.1:1", {}).status();
  EXPECT_EQ(dial.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(dial.message()), HasSubstr("--tls_ca"));
  EXPECT_TRUE(ClientChannelCredentials("192.0.2.1:1", {.insecure = true}).ok());
  EXPECT_TRUE(ClientChannelCredentials("127.0.0.1:1", {}).ok());
}

}  // namespace
}  // namespace sluice
