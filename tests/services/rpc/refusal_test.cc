// A process that its orchestrator can't use.
#include "services/rpc/refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/rpc/server.h"
#include "services/rpc/transport.h"
#include "sluice/v1/tokenizer.grpc.pb.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kWhy[] = "it serves another model";

class RefusalWatchTest : public ::testing::Test {
 protected:
  // Asked every second from then on; the second after which it is to end.
  std::optional<int> EndsAfter(int seconds, const std::string& refusal = kWhy) {
    for (int i = 0; i < seconds; ++i) {
      now_ = now_ + absl::Seconds(1);
      if (watch_.OnAsked(refusal, now_).has_value()) return i;
    }
    return std::nullopt;
  }

  RefusalWatch watch_{absl::Seconds(30)};
  SteadyTime now_ = SteadyTime::FromStart(absl::Hours(1));
};

TEST_F(RefusalWatchTest, EndsAProcessThatWasRefusedForLong) {
  EXPECT_EQ(EndsAfter(100), 30);
  EXPECT_THAT(watch_.OnAsked(kWhy, now_).value_or(""),
              HasSubstr("can't use this process: it serves another"));
}

TEST_F(RefusalWatchTest, BeginsAnewOnceItIsNotRefusedOrNobodyHasAsked) {
  EXPECT_EQ(EndsAfter(29), std::nullopt);
  EXPECT_EQ(EndsAfter(1, ""), std::nullopt);
  EXPECT_EQ(EndsAfter(29), std::nullopt);
  now_ = now_ + absl::Minutes(1);
  EXPECT_EQ(EndsAfter(100), 30);
}

TEST_F(RefusalWatchTest, NeverEndsWhatSomebodyUses) {
  watch_.OnUsed();
  EXPECT_EQ(EndsAfter(100), std::nullopt);
}

TEST(RefusalWatch, WithoutPatienceNeverEnds) {
  RefusalWatch watch(absl::ZeroDuration());
  const SteadyTime now = SteadyTime::FromStart(absl::Hours(1));
  EXPECT_FALSE(watch.OnAsked(kWhy, now).has_value());
  EXPECT_FALSE(watch.OnAsked(kWhy, now + absl::Seconds(5)).has_value());
}

class Tokenizer final : public v1::TokenizerService::CallbackService {
  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const v1::GetTokenizerInfoRequest*,
                                    v1::GetTokenizerInfoResponse*) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest*, v1::TokenizeResponse*) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

TEST(RefusalListener, HearsWhatGetInfoCarriesAndThatOtherCallsCome) {
  std::vector<std::string> asked;
  int used = 0;
  SetRefusalHandler({.on_asked = [&](const std::string& refusal) { asked.push_back(refusal); },
                     .on_used = [&] { ++used; }});
  Tokenizer service;
  const auto server = Server::Start({.address = "inproc:refusal", .services = {&service}});
  ASSERT_TRUE(server.ok()) << server.status();
  Dialer dialer;
  dialer.RegisterInProcess("refusal", (*server)->grpc_server());
  const auto stub = v1::TokenizerService::NewStub(*dialer.Dial("inproc:refusal", Role::kTokenizer));
  const std::string bytes("its weights \xff differ");
  for (const std::string& refusal : {std::string(), bytes}) {
    grpc::ClientContext context;
    if (!refusal.empty()) context.AddMetadata(kRefusalKey, refusal);
    v1::GetTokenizerInfoResponse response;
    EXPECT_TRUE(stub->GetInfo(&context, {}, &response).ok());
  }
  EXPECT_EQ(used, 0);
  grpc::ClientContext context;
  v1::TokenizeResponse response;
  EXPECT_TRUE(stub->Tokenize(&context, {}, &response).ok());
  SetRefusalHandler({.on_asked = [](const std::string&) {}, .on_used = [] {}});
  EXPECT_THAT(asked, ElementsAre("", bytes));
  EXPECT_EQ(used, 1);
}

}  // namespace
}  // namespace sluice
