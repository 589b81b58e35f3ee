#include "services/shard/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/common/epoch.h"
#include "services/messages/wiring_message.h"
#include "services/rpc/server.h"
#include "tests/kernels/testing/test_wiring.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using testing::TestWiring;

const Deadline kLong = Deadline::After(absl::Hours(1));

class TableService final : public v1::RendezvousService::CallbackService {
 public:
  grpc::ServerUnaryReactor* PutRendezvous(grpc::CallbackServerContext* context,
                                          const v1::PutRendezvousRequest* request,
                                          v1::PutRendezvousResponse*) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    table.Put(*request, reactor);
    return reactor;
  }
  grpc::ServerUnaryReactor* GetRendezvous(grpc::CallbackServerContext*,
                                          const v1::GetRendezvousRequest* request,
                                          v1::GetRendezvousResponse* response) override {
    return table.Get(*request, response);
  }
  RendezvousTable table;
};

class RendezvousTest : public ::testing::Test {
 protected:
  std::unique_ptr<RemoteRendezvousStore> StoreOf(const WiringIdentity& wiring,
                                                 Deadline deadline = Deadline::Never()) {
    return std::make_unique<RemoteRendezvousStore>(
        server_->grpc_server()->InProcessChannel(grpc::ChannelArguments()), wiring, deadline);
  }
  // A call that waits for `key`, and what it got.
  struct Waiting {
    std::thread thread;
    absl::StatusOr<std::string> value;
  };
  std::unique_ptr<Waiting> WaitFor(const WiringIdentity& wiring, const std::string& key) {
    auto waiting = std::make_unique<Waiting>();
    waiting->thread = std::thread([this, wiring, key, into = waiting.get()] {
      into->value = StoreOf(wiring)->Get(key, kLong, {});
    });
    return waiting;
  }
  static absl::StatusOr<std::string> ResultOf(Waiting& waiting) {
    waiting.thread.join();
    return waiting.value;
  }

  TableService service_;
  std::unique_ptr<Server> server_ =
      *Server::Start({.address = "inproc:it", .services = {&service_}});
};

TEST_F(RendezvousTest, GivesWhatWasSetToTheRanksOfTheWiring) {
  service_.table.KeepOnly(TestWiring(3));
  const auto waiting = WaitFor(TestWiring(3), "ranks/1");
  ASSERT_TRUE(StoreOf(TestWiring(3))->Set("ranks/1", "an address").ok());
  EXPECT_EQ(ResultOf(*waiting).value_or(""), "an address");
  EXPECT_TRUE(absl::IsAlreadyExists(StoreOf(TestWiring(3))->Set("ranks/1", "another")));
}

TEST_F(RendezvousTest, SetsNothingBeyondTheDeadline) {
  const auto late = StoreOf(TestWiring(3), Deadline::After(absl::ZeroDuration()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late->Set("ranks/1", "an address")));
}

TEST_F(RendezvousTest, RefusesRanksOfAnotherWiringAndNamesWhatDiffers) {
  service_.table.KeepOnly(TestWiring(3));
  ASSERT_TRUE(StoreOf(TestWiring(3))->Set("ranks/0", "ours").ok());
  const std::pair<WiringIdentity, std::string> others[] = {
      {TestWiring(3, 2), "the wiring nonces differ"},
      {TestWiring(2), "it is wired into epoch 2, expected epoch 3"}};
  for (const auto& [other, difference] : others) {
    const absl::Status set = StoreOf(other)->Set("ranks/1", "theirs");
    const absl::Status got = StoreOf(other)->Get("ranks/0", kLong, {}).status();
    for (const absl::Status& status : {set, got}) {
      EXPECT_TRUE(absl::IsAborted(status)) << status;
      EXPECT_THAT(status.ToString(), HasSubstr(difference));
    }
  }
  ASSERT_TRUE(StoreOf(TestWiring(3))->Set("ranks/1", "ours").ok()) << "the key is free";
}

// Rank 0 may be opened last.
TEST_F(RendezvousTest, KeepsWhatRanksOfANewerWiringBring) {
  service_.table.KeepOnly(TestWiring(3));
  ASSERT_TRUE(StoreOf(TestWiring(4))->Set("ranks/1", "ours").ok());
  ASSERT_TRUE(StoreOf(TestWiring(4, 2))->Set("ranks/1", "theirs").ok());
  const auto waiting = WaitFor(TestWiring(4), "ranks/0");
  service_.table.KeepOnly(TestWiring(4));
  EXPECT_EQ(StoreOf(TestWiring(4))->Get("ranks/1", kLong, {}).value_or(""), "ours");
  ASSERT_TRUE(StoreOf(TestWiring(4))->Set("ranks/0", "rank 0").ok());
  EXPECT_EQ(ResultOf(*waiting).value_or(""), "rank 0");
  EXPECT_TRUE(absl::IsAborted(StoreOf(TestWiring(4, 2))->Get("ranks/1", kLong, {}).status()));
}

TEST_F(RendezvousTest, EndsTheCallsOfWiringsThatAreOver) {
  service_.table.KeepOnly(TestWiring(3));
  const auto old = WaitFor(TestWiring(3), "ranks/1");
  const auto foreign = WaitFor(TestWiring(4, 2), "ranks/1");
  service_.table.KeepOnly(TestWiring(4));
  EXPECT_TRUE(absl::IsAborted(ResultOf(*old).status()));
  EXPECT_TRUE(absl::IsAborted(ResultOf(*foreign).status()));
  service_.table.KeepOnly(TestWiring(3));  // late: does nothing
  EXPECT_TRUE(StoreOf(TestWiring(4))->Set("ranks/1", "ours").ok());
}

// As StageWorker::Switch: a stage that was opened under the largest epoch begins again.
TEST_F(RendezvousTest, BeginsAgainAfterTheLargestEpoch) {
  service_.table.KeepOnly(TestWiring(kMaxEpoch));
  service_.table.KeepOnly(TestWiring(1));
  EXPECT_TRUE(StoreOf(TestWiring(1))->Set("ranks/1", "ours").ok());
}

TEST_F(RendezvousTest, HoldsNoMoreThanItsLimits) {
  service_.table.KeepOnly(TestWiring(3));
  const auto ours = StoreOf(TestWiring(3)), newer = StoreOf(TestWiring(4));
  EXPECT_THAT(ours->Set("k", std::string(RendezvousTable::kMostValueBytes + 1, 'x')).ToString(),
              HasSubstr("4097 bytes; accepted: at most 4096"));
  for (size_t i = 0; i < RendezvousTable::kMostWaiting; ++i) {
    ASSERT_TRUE(newer->Set(absl::StrCat("k", i), "v").ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(newer->Set("one more", "v")));
  EXPECT_TRUE(ours->Set("ranks/0", "v").ok()) << "the wiring that is open is not kept out";
}

// Answers every call with another wiring.
class ForeignService final : public v1::RendezvousService::CallbackService {
  grpc::ServerUnaryReactor* GetRendezvous(grpc::CallbackServerContext* context,
                                          const v1::GetRendezvousRequest*,
                                          v1::GetRendezvousResponse* response) override {
    SetWiring(TestWiring(3, 2), *response);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

TEST(RemoteRendezvousStoreTest, DoesNotBelieveATableOfAnotherWiring) {
  ForeignService service;
  const auto server = *Server::Start({.address = "inproc:it", .services = {&service}});
  RemoteRendezvousStore store(server->grpc_server()->InProcessChannel(grpc::ChannelArguments()),
                              TestWiring(3), kLong);
  const absl::Status status = store.Get("ranks/0", kLong, {}).status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("the wiring nonces differ"));
}

}  // namespace
}  // namespace sluice
