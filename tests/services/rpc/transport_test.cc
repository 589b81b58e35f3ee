// Statuses on the wire, addresses and credentials, servers and how they are reached.
#include "services/rpc/transport.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "services/common/status.h"
#include "services/rpc/server.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Status, KeepsEveryCodeAndItsMessage) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why \"it\" failed");
    EXPECT_EQ(static_cast<int>(ToGrpc(status).error_code()), code);
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
  EXPECT_EQ(ToGrpc(absl::AbortedError("")).error_code(), grpc::StatusCode::ABORTED);
}

TEST(Status, IsAnnotatedWithWhereItHappened) {
  EXPECT_EQ(Annotate(absl::AbortedError("gone"), "step 4"), absl::AbortedError("step 4: gone"));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "step 4").ok());
}

TEST(Server, ListensInPlaintextOnLocalAddressesAlone) {
  const absl::Status status = Server::Start({.address = "0.0.0.0:1"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("0.0.0.0:1"));
}

TEST(Dialer, WantsCertificatesWhereOthersCanListen) {
  Dialer dialer;
  for (const char* address : {"127.0.0.1:1", "0.0.0.0:1", "example.org:1"}) {
    EXPECT_EQ(dialer.Dial(address, Role::kShard).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
  Dialer nameless({.certificate = "/none/cert.pem", .key = "/none/key", .authority = "/none/ca"});
  const absl::Status missing = nameless.Dial("example.org:1", Role::kShard).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("/none/cert.pem"));
}

// What grpc.health.v1 says of a service, or of the whole process: "SERVING", "NOT_SERVING", or the
// call's error. The request's one field is the name, shorter than 128 bytes, the response's one
// field is the status.
std::string Health(const std::shared_ptr<grpc::Channel>& channel, const std::string& service = "") {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
  const grpc::Slice bytes_of_request(
      service.empty() ? "" : absl::StrCat("\x0a", std::string(1, service.size()), service));
  const grpc::ByteBuffer request(&bytes_of_request, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&](grpc::Status result) {
                   status = std::move(result);
                   done.Notify();
                 });
  done.WaitForNotification();
  if (!status.ok()) return status.error_message();
  grpc::Slice bytes;
  if (!response.DumpToSingleSlice(&bytes).ok()) return "no bytes";
  const std::string text(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  if (text == "\x08\x01") return "SERVING";
  return text == "\x08\x02" ? "NOT_SERVING" : "unknown";
}

TEST(Server, AnswersForItsNames) {
  const auto server =
      Server::Start({.address = "127.0.0.1:0", .names = {"sluice.v1.GenerationService"}});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel = DialPublic((*server)->address());
  ASSERT_TRUE(channel.ok());
  for (const bool serving : {true, false}) {
    (*server)->SetServing(serving);
    EXPECT_EQ(Health(*channel, "sluice.v1.GenerationService"), serving ? "SERVING" : "NOT_SERVING");
  }
  EXPECT_EQ(Health(*channel, "sluice.v1.Other"), "no such service");
}

TEST(Server, SaysWhichPortItGotAndHowItIs) {
  const auto server = Server::Start({.address = "127.0.0.1:0"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  EXPECT_TRUE(absl::StartsWith(address, "127.0.0.1:"));
  EXPECT_NE(address, "127.0.0.1:0");
  const auto channel = DialPublic(address);
  ASSERT_TRUE(channel.ok());
  EXPECT_EQ(Health(*channel), "NOT_SERVING");
  (*server)->SetServing(true);
  EXPECT_EQ(Health(*channel), "SERVING");
  (*server)->SetServing(false);
  EXPECT_EQ(Health(*channel), "NOT_SERVING");
}

TEST(Server, RefusesAnAddressInUse) {
  const auto first = Server::Start({.address = "127.0.0.1:0"});
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = Server::Start({.address = (*first)->address()}).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.message()), HasSubstr((*first)->address()));
}

TEST(Server, LogsNothingOfTextsThatAreNotUtf8) {
  const auto server = Server::Start({.address = "inproc:silent"});
  ASSERT_TRUE(server.ok()) << server.status();
  ::testing::internal::CaptureStderr();
  v1::GenerateRequest request;
  EXPECT_FALSE(
      request.ParseFromString("\x12\x03"
                              "ab\xff"));  // field 2, three bytes
  // Not "": connections of earlier cases may still end, which gRPC may say.
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr("UTF-8")));
}

TEST(Server, ListensOnAUnixSocket) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/sluice_transport_test.sock");
  const auto server = Server::Start({.address = absl::StrCat("unix:", path)});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->address(), absl::StrCat("unix:", path));
  (*server)->SetServing(true);
  Dialer dialer;
  EXPECT_EQ(Health(*dialer.Dial((*server)->address(), Role::kShard)), "SERVING");
}

TEST(Server, AnswersHealthOnAddressesOfItsOwn) {
  const auto server = Server::Start({.address = "inproc:probed"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string socket =
      absl::StrCat("unix:", ::testing::TempDir(), "/sluice_health_test.sock");
  ASSERT_EQ((*server)->ServeHealthOn({socket}), absl::OkStatus());
  const auto probe = *DialPublic(socket);
  EXPECT_EQ(Health(probe), "NOT_SERVING");
  (*server)->SetServing(true);
  EXPECT_EQ(Health(probe), "SERVING");
  (*server)->SetServing(false);
  EXPECT_EQ(Health(probe), "NOT_SERVING");
  const absl::Status taken = (*server)->ServeHealthOn({"192.0.2.1:1"});
  EXPECT_EQ(taken.code(), absl::StatusCode::kUnavailable);
}

TEST(Dialer, ReachesInProcessServersByName) {
  const auto server = Server::Start({.address = "inproc:here"});
  ASSERT_TRUE(server.ok()) << server.status();
  (*server)->SetServing(true);
  Dialer dialer;
  EXPECT_EQ(dialer.Dial("inproc:here", Role::kShard).status().code(), absl::StatusCode::kNotFound);
  dialer.RegisterInProcess("here", (*server)->grpc_server());
  const auto channel = dialer.Dial("inproc:here", Role::kShard);
  ASSERT_TRUE(channel.ok()) << channel.status();
  EXPECT_EQ(Health(*channel), "SERVING");
  const absl::Status unknown = dialer.Dial("inproc:elsewhere", Role::kShard).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("elsewhere"));
  EXPECT_EQ(dialer.Dial("", Role::kShard).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
