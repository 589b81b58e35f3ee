// Whom calls are served for: those of gRPC's own and those of sessions, with proof and without.
#include "orchestrator/api/admission.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "services/rpc/server.h"
#include "sluice/v1/generation_session.grpc.pb.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// `printf %s alpha | sha256sum`, and of "beta".
constexpr char kTokens[] =
    "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8 ann\n"
    "f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753 bob\n";

// Asks a question about the context of a call, wherever calls have one.
class Asked final : public v1::GenerationSessionService::WithCallbackMethod_OpenSession<
                        v1::GenerationSessionService::Service> {
 public:
  using Question = std::function<absl::StatusOr<std::string>(const grpc::ServerContextBase&)>;

  grpc::ServerBidiReactor<v1::OpenSessionRequest, v1::OpenSessionResponse>* OpenSession(
      grpc::CallbackServerContext* context) override {
    class Ended final
        : public grpc::ServerBidiReactor<v1::OpenSessionRequest, v1::OpenSessionResponse> {
      void OnDone() override { delete this; }
    };
    auto* const reactor = new Ended;
    {
      absl::MutexLock lock(&mutex);
      answer = question(*context);
    }
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  absl::Mutex mutex;
  Question question;
  absl::StatusOr<std::string> answer;
};

class AdmissionTest : public ::testing::Test {
 protected:
  using Metadata = std::vector<std::pair<std::string, std::string>>;

  AdmissionTest()
      : path_(absl::StrCat(::testing::TempDir(), "/admission-", getpid())),
        server_(*Server::Start({.address = "inproc:it", .services = {&asked_}})) {
    std::ofstream(path_) << kTokens;
    auto tokens = TokenFile::Open(path_, nullptr);
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    authenticator_.emplace(AuthenticatorOptions{.tokens = *std::move(tokens)});
  }
  ~AdmissionTest() override { std::filesystem::remove(path_); }

  // What the question finds in a call with this metadata.
  absl::StatusOr<std::string> Ask(const Metadata& metadata, Asked::Question question) {
    {
      absl::MutexLock lock(&asked_.mutex);
      asked_.question = std::move(question);
    }
    const auto stub = v1::GenerationSessionService::NewStub(
        server_->grpc_server()->InProcessChannel(grpc::ChannelArguments()));
    grpc::ClientContext context;
    for (const auto& [key, value] : metadata) context.AddMetadata(key, value);
    const auto stream = stub->OpenSession(&context);
    EXPECT_TRUE(stream->Finish().ok());
    absl::MutexLock lock(&asked_.mutex);
    return asked_.answer;
  }
  absl::StatusOr<std::string> TenantOfCall(const Admission& admission, const Metadata& metadata) {
    return Ask(metadata, [&](const auto& context) { return admission.TenantOf(context); });
  }
  // Of a call in a session that was opened with this metadata.
  absl::StatusOr<std::string> TenantInSession(const Admission& admission, const Metadata& metadata,
                                              const v1::StartCall& start) {
    return Ask(metadata, [&](const auto& context) { return admission.TenantOf(context, start); });
  }

  const Admission open_{nullptr};
  Admission proven() const { return Admission(&*authenticator_); }

 private:
  const std::string path_;
  Asked asked_;
  std::unique_ptr<Server> server_;
  std::optional<Authenticator> authenticator_;
};

v1::StartCall StartWith(const std::string& authorization, const std::string& tenant = "") {
  v1::StartCall start;
  start.set_authorization(authorization);
  start.set_sluice_tenant(tenant);
  return start;
}

TEST_F(AdmissionTest, CallIsServedForWhomItNames) {
  EXPECT_EQ(*TenantOfCall(open_, {{"sluice-tenant", "ann"}}), "ann");
  EXPECT_EQ(TenantOfCall(open_, {{"sluice-tenant", std::string(129, 'x')}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(AdmissionTest, CallIsServedForWhomItsTokenNamesWhateverItSays) {
  EXPECT_EQ(*TenantOfCall(proven(), {{"authorization", "Bearer alpha"}, {"sluice-tenant", "bob"}}),
            "ann");
  EXPECT_EQ(TenantOfCall(proven(), {{"sluice-tenant", "bob"}}).status().code(),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(AdmissionTest, EachCallOfASessionIsServedForWhomItNames) {
  const Metadata session = {{"sluice-tenant", "gateway"}};
  EXPECT_EQ(*TenantInSession(open_, session, StartWith("", "ann")), "ann");
  EXPECT_EQ(*TenantInSession(open_, session, StartWith("", "bob")), "bob");
  EXPECT_NE(*TenantInSession(open_, session, StartWith("")), "gateway");
  EXPECT_EQ(TenantInSession(open_, session, StartWith("", std::string(129, 'x'))).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(AdmissionTest, EachCallOfASessionIsServedForWhomItsTokenNames) {
  const Metadata session = {{"authorization", "Bearer alpha"}};
  EXPECT_EQ(*TenantInSession(proven(), session, StartWith("Bearer alpha")), "ann");
  EXPECT_EQ(*TenantInSession(proven(), session, StartWith("Bearer beta", "ann")), "bob");
}

TEST_F(AdmissionTest, TokenOfTheSessionIsNoProofForItsCalls) {
  const auto refused =
      TenantInSession(proven(), {{"authorization", "Bearer alpha"}}, StartWith("", "ann"));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("authorization: Bearer TOKEN"));
}

}  // namespace
}  // namespace sluice
