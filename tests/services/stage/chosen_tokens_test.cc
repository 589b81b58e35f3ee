#include "services/stage/chosen_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "services/messages/wiring_message.h"
#include "services/rpc/server.h"
#include "services/rpc/transport.h"
#include "services/streams/server_stream.h"
#include "tests/kernels/testing/test_wiring.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TestWiring;

SteadyTime SoonEnough() { return SteadyTime::Now() + absl::Minutes(1); }

absl::StatusOr<int32_t> TokenOf(ChosenTokensFollower& follower, uint64_t step_id, int32_t row) {
  int32_t token = -1;
  const absl::Status status = follower.TokensOf(step_id, row, {&token, 1});
  if (!status.ok()) return status;
  return token;
}

v1::Chosen ChosenIn(uint64_t step_id, const std::vector<int32_t>& tokens) {
  v1::Chosen chosen;
  chosen.set_step_id(step_id);
  chosen.mutable_token_ids()->Add(tokens.begin(), tokens.end());
  return chosen;
}

// A sampler's end that is served, in this process or over a unix socket and by a lane, and
// followers of it.
class ChosenTokensTest : public ::testing::TestWithParam<LaneUse> {
 protected:
  ChosenTokensTest() : folder_(::testing::TempDir() + "/lane-XXXXXX") {
    const std::string address = GetParam() == LaneUse::kOffered
                                    ? absl::StrCat("unix:", mkdtemp(folder_.data()), "/it")
                                    : "inproc:it";
    server_ = *Server::Start({.address = address, .services = {&publisher_}});
    if (GetParam() == LaneUse::kNone) dialer_.RegisterInProcess("it", server_->grpc_server());
    channel_ = *dialer_.Dial(address, Role::kSampler);
  }
  ~ChosenTokensTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<ChosenTokensFollower> Follow(
      uint64_t epoch, std::function<void(absl::Status)> on_lost = nullptr) {
    return std::make_unique<ChosenTokensFollower>(channel_, TestWiring(epoch), std::move(on_lost),
                                                  GetParam());
  }

  ChosenTokensPublisher publisher_;
  std::string folder_;
  std::unique_ptr<Server> server_;
  Dialer dialer_;
  std::shared_ptr<grpc::Channel> channel_;
};

INSTANTIATE_TEST_SUITE_P(, ChosenTokensTest, ::testing::Values(LaneUse::kNone, LaneUse::kOffered),
                         [](const auto& info) {
                           return info.param == LaneUse::kOffered ? "ByALane" : "ByTheStream";
                         });

TEST_P(ChosenTokensTest, TellTokensByStepAndRow) {
  publisher_.Open(TestWiring(4));
  const auto follower = Follow(4);
  ASSERT_TRUE(follower->WaitUntilOpen(SoonEnough()).ok());
  publisher_.Publish(4, ChosenIn(1, {7, 8}));
  publisher_.Publish(4, ChosenIn(2, {}));
  EXPECT_EQ(TokenOf(*follower, 1, 0).value_or(-1), 7);
  EXPECT_EQ(TokenOf(*follower, 1, 1).value_or(-1), 8);
  publisher_.Publish(3, ChosenIn(3, {9}));  // of an epoch that is over
  std::thread later([&] { publisher_.Publish(4, ChosenIn(3, {6})); });
  EXPECT_EQ(TokenOf(*follower, 3, 0).value_or(-1), 6);
  later.join();
}

TEST_P(ChosenTokensTest, TellRunsOfTokensAndWhatTheyTook) {
  publisher_.Open(TestWiring(4));
  const auto follower = Follow(4);
  ASSERT_TRUE(follower->WaitUntilOpen(SoonEnough()).ok());
  v1::Chosen chosen = ChosenIn(2, {7, 8, 9});
  chosen.add_computed_ns(30);
  publisher_.Publish(4, std::move(chosen));
  std::vector<int32_t> tokens(2);
  ASSERT_TRUE(follower->TokensOf(2, 1, absl::MakeSpan(tokens)).ok());
  EXPECT_THAT(tokens, ElementsAre(8, 9));
  EXPECT_THAT(follower->ComputedFor(2), ElementsAre(30));
  EXPECT_THAT(follower->ComputedFor(0), ElementsAre(30));
  EXPECT_TRUE(follower->ComputedFor(1).empty());
  EXPECT_EQ(follower->TokensOf(2, 2, absl::MakeSpan(tokens)).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(ChosenTokensTest, GiveUpByTheSteadyClock) {
  publisher_.Open(TestWiring(4));
  publisher_.Close(4, absl::OkStatus());
  const auto follower = Follow(4);
  EXPECT_FALSE(follower->WaitUntilOpen(SteadyTime::Now()).ok());
}

TEST_P(ChosenTokensTest, TakeStepsInOrderUpToTheLastNumber) {
  publisher_.Open(TestWiring(4));
  const auto follower = Follow(4);
  ASSERT_TRUE(follower->WaitUntilOpen(SoonEnough()).ok());
  const uint64_t last = ~uint64_t{0};
  publisher_.Publish(4, ChosenIn(last, {7}));
  EXPECT_EQ(TokenOf(*follower, last, 0).value_or(-1), 7);
  EXPECT_EQ(TokenOf(*follower, 1, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(ChosenTokensTest, RefuseAStepThatCameBefore) {
  publisher_.Open(TestWiring(4));
  const auto follower = Follow(4);
  ASSERT_TRUE(follower->WaitUntilOpen(SoonEnough()).ok());
  publisher_.Publish(4, ChosenIn(2, {7}));
  EXPECT_EQ(TokenOf(*follower, 2, 0).value_or(-1), 7);
  publisher_.Publish(4, ChosenIn(2, {8}));
  EXPECT_THAT(std::string(TokenOf(*follower, 3, 0).status().message()),
              HasSubstr("in step 2 after step 2"));
}

TEST_P(ChosenTokensTest, SayWhereARowHasChosenNothing) {
  publisher_.Open(TestWiring(4));
  const auto follower = Follow(4);
  ASSERT_TRUE(follower->WaitUntilOpen(SoonEnough()).ok());
  publisher_.Publish(4, ChosenIn(2, {7}));
  for (const auto& [step, row] : {std::pair(1, 0), {2, 1}, {2, -1}}) {
    const auto token = TokenOf(*follower, step, row);
    EXPECT_EQ(token.status().code(), absl::StatusCode::kInvalidArgument) << step << " " << row;
    EXPECT_THAT(std::string(token.status().message()), HasSubstr("chosen nothing in row"));
  }
}

TEST_P(ChosenTokensTest, ForgetWhatLiesFarBack) {
  publisher_.Open(TestWiring(4));
  const auto follower = Follow(4);
  ASSERT_TRUE(follower->WaitUntilOpen(SoonEnough()).ok());
  constexpr uint64_t kLast = 2 * ChosenTokensFollower::kRemembered;
  for (uint64_t step = 1; step <= kLast; ++step) publisher_.Publish(4, ChosenIn(step, {7}));
  EXPECT_TRUE(TokenOf(*follower, kLast, 0).ok());
  EXPECT_TRUE(TokenOf(*follower, kLast - ChosenTokensFollower::kRemembered, 0).ok());
  EXPECT_FALSE(TokenOf(*follower, kLast - ChosenTokensFollower::kRemembered - 1, 0).ok());
}

TEST_P(ChosenTokensTest, AcceptTheEpochThatIsWiredIn) {
  EXPECT_EQ(Follow(4)->WaitUntilOpen(SoonEnough()).code(), absl::StatusCode::kAborted);
  publisher_.Open(TestWiring(5));
  EXPECT_EQ(Follow(4)->WaitUntilOpen(SoonEnough()).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Follow(5)->WaitUntilOpen(SoonEnough()).ok());
}

// A foreign follower would learn the tokens, and the embedding would wait for them in vain.
TEST_P(ChosenTokensTest, AreToldToOneFollowerOfTheWiring) {
  publisher_.Open(TestWiring(4));
  const auto refusal_of = [&](const WiringIdentity& wiring) {
    return ChosenTokensFollower(channel_, wiring, nullptr, GetParam()).WaitUntilOpen(SoonEnough());
  };
  EXPECT_THAT(std::string(refusal_of(TestWiring(4, 2)).message()),
              HasSubstr("the wiring nonces differ"));
  const auto follower = Follow(4);
  ASSERT_TRUE(follower->WaitUntilOpen(SoonEnough()).ok());
  EXPECT_EQ(refusal_of(TestWiring(4, 2)).code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(refusal_of(TestWiring(4)).message()), HasSubstr("has its follower"));
  publisher_.Publish(4, ChosenIn(1, {7}));
  EXPECT_EQ(TokenOf(*follower, 1, 0).value_or(-1), 7);
}

// Answers every Follow with what the test gives.
class FollowService final : public v1::ChosenTokensService::CallbackService {
 public:
  using Stream = ServerStream<v1::FollowRequest, v1::FollowResponse>;
  explicit FollowService(v1::FollowResponse response) : response_(std::move(response)) {}
  grpc::ServerBidiReactor<v1::FollowRequest, v1::FollowResponse>* Follow(
      grpc::CallbackServerContext*) override {
    return Stream::Start(
        {.on_request =
             [this](Stream& stream, const v1::FollowRequest&) {
               stream.Send(v1::FollowResponse(response_));
             },
         .on_requests_end = [](Stream& stream) { stream.Close(absl::OkStatus()); }});
  }

 private:
  const v1::FollowResponse response_;
};

TEST(ChosenTokensFollower, DoesNotBelieveASamplerOfAnotherWiring) {
  v1::FollowResponse other, early;
  SetWiring(TestWiring(4, 2), *other.mutable_following());
  *early.mutable_chosen() = ChosenIn(1, {9});
  for (const auto& [response, code] : {std::pair(other, absl::StatusCode::kAborted),
                                       std::pair(early, absl::StatusCode::kFailedPrecondition)}) {
    FollowService service(response);
    const auto server = *Server::Start({.address = "inproc:it", .services = {&service}});
    absl::Notification lost;
    ChosenTokensFollower follower(server->grpc_server()->InProcessChannel(grpc::ChannelArguments()),
                                  TestWiring(4), [&](const absl::Status&) { lost.Notify(); });
    const absl::Status opened = follower.WaitUntilOpen(SoonEnough());
    EXPECT_EQ(opened.code(), code) << opened;
    EXPECT_EQ(TokenOf(follower, 1, 0).status(), opened);
    lost.WaitForNotification();
  }
}

TEST_P(ChosenTokensTest, TellWhoWaitsThatTheSamplerIsLost) {
  publisher_.Open(TestWiring(4));
  absl::Notification lost;
  const auto follower = Follow(4, [&](const absl::Status&) { lost.Notify(); });
  ASSERT_TRUE(follower->WaitUntilOpen(SoonEnough()).ok());
  std::thread closing([&] { publisher_.Close(4, absl::UnavailableError("gone")); });
  const auto token = TokenOf(*follower, 1, 0);
  EXPECT_EQ(token.status().code(), absl::StatusCode::kUnavailable) << token.status();
  lost.WaitForNotification();
  closing.join();
}

}  // namespace
}  // namespace sluice
