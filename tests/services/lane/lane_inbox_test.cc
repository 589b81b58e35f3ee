// Both ends of a stream with a lane: services/lane/lane_inbox.h, lane_outbox.h and lane_pump.h.
#include "services/lane/lane_inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "services/lane/lane_outbox.h"
#include "services/lane/lane_pump.h"
#include "services/lane/lane_segment.h"
#include "services/streams/sent_bytes.h"
#include "sluice/v1/stage.pb.h"
#include "tests/kernels/testing/test_wiring.h"

namespace sluice {
namespace {

const WiringIdentity kInboxWiring = testing::TestWiring();

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::PushRequest StepOf(uint64_t step, size_t bytes = 10) {
  v1::PushRequest request;
  request.mutable_step()->set_step_id(step);
  request.mutable_step()->mutable_hidden()->set_data(std::string(bytes, 'x'));
  return request;
}

v1::PushRequest WithSequenceNumber(uint64_t number) {
  v1::PushRequest request = StepOf(number);
  request.set_sequence_number(number);
  return request;
}

class LaneInboxTest : public ::testing::Test {
 protected:
  void OpenLane() { ASSERT_TRUE(outbox_.Open(*inbox_.Offer(kInboxWiring), kInboxWiring).ok()); }

  // By the lane, or into streamed_.
  void Send(v1::PushRequest request) {
    outbox_.Send(std::move(request),
                 [this](v1::PushRequest&& unsent) { streamed_.push_back(std::move(unsent)); });
  }
  void DeliverStreamed() {
    for (; !streamed_.empty(); streamed_.pop_front()) inbox_.Add(std::move(streamed_.front()));
  }

  // The step of the next message; 0: none is there.
  uint64_t Take() {
    const auto request = inbox_.TakeIfThere();
    EXPECT_TRUE(request.ok()) << request.status();
    return request.ok() && request->has_value() ? (*request)->step().step_id() : 0;
  }

  LaneInbox<v1::PushRequest> inbox_;
  LaneOutbox<v1::PushRequest> outbox_;
  std::deque<v1::PushRequest> streamed_;
};

TEST_F(LaneInboxTest, TakesWhatComesByTheStreamWhereThereIsNoLane) {
  for (uint64_t step = 1; step <= 3; ++step) inbox_.Add(StepOf(step));
  for (uint64_t step = 1; step <= 3; ++step) EXPECT_EQ(inbox_.Next()->step().step_id(), step);
  EXPECT_EQ(Take(), 0u);
}

TEST_F(LaneInboxTest, GivesTurnsToWhatGoesByTheStreamToo) {
  Send(StepOf(1));
  EXPECT_EQ(streamed_.size(), 1u);
  OpenLane();
  Send(StepOf(2));
  EXPECT_EQ(streamed_.size(), 1u);
  EXPECT_EQ(Take(), 0u);  // the second waits for the first
  DeliverStreamed();
  EXPECT_EQ(Take(), 1u);
  EXPECT_EQ(Take(), 2u);
}

TEST_F(LaneInboxTest, TakesAMessageThatIsTooLargeInItsTurn) {
  OpenLane();
  Send(StepOf(1));
  Send(StepOf(2, LaneSegment::capacity()));
  Send(StepOf(3));
  ASSERT_EQ(streamed_.size(), 1u);
  EXPECT_EQ(Take(), 1u);
  EXPECT_EQ(Take(), 0u);
  DeliverStreamed();
  EXPECT_EQ(Take(), 2u);
  EXPECT_EQ(Take(), 3u);
}

TEST_F(LaneInboxTest, TakesWhatTheStreamBroughtTooEarly) {
  OpenLane();
  inbox_.Add(WithSequenceNumber(2));
  EXPECT_EQ(Take(), 0u);
  Send(StepOf(1));
  EXPECT_EQ(Take(), 1u);
  EXPECT_EQ(Take(), 2u);
}

TEST_F(LaneInboxTest, GoesOnByTheStreamWhereTheLaneIsFull) {
  OpenLane();
  constexpr uint64_t kSteps = 100;
  for (uint64_t step = 1; step <= kSteps; ++step) Send(StepOf(step, 100'000));
  EXPECT_GT(streamed_.size(), 50u);
  DeliverStreamed();
  for (uint64_t step = 1; step <= kSteps; ++step) ASSERT_EQ(inbox_.Next()->step().step_id(), step);
}

TEST_F(LaneInboxTest, KeepsTheOrderOfManyByBothWays) {
  OpenLane();
  constexpr uint64_t kSteps = 5'000;
  std::thread sending([this] {
    std::mt19937 random(1);
    for (uint64_t step = 1; step <= kSteps; ++step) {
      outbox_.Send(StepOf(step, random() % 64 == 0 ? LaneSegment::capacity() : random() % 5'000),
                   [this](v1::PushRequest&& unsent) { inbox_.Add(std::move(unsent)); });
    }
  });
  for (uint64_t step = 1; step <= kSteps; ++step) {
    const auto request = inbox_.Next();
    ASSERT_TRUE(request.ok()) << request.status();
    ASSERT_EQ(request->step().step_id(), step);
  }
  sending.join();
}

uint64_t SentBytesOf(const std::string& message) {
  for (const SentBytes& sent : AllSentBytes()) {
    if (sent.message == message) return sent.bytes;
  }
  return 0;
}

TEST_F(LaneInboxTest, CountsWhatGoesByTheLane) {
  OpenLane();
  const uint64_t before = SentBytesOf("PushRequest");
  Send(StepOf(1));
  Send(StepOf(2, LaneSegment::capacity()));  // by the stream, which counts itself
  EXPECT_EQ(SentBytesOf("PushRequest") - before, inbox_.Next()->ByteSizeLong());
}

TEST_F(LaneInboxTest, IsClosedForWhoWaitsAndForGood) {
  OpenLane();
  std::thread closing([this] { inbox_.Close(absl::AbortedError("replaced")); });
  EXPECT_EQ(inbox_.Next().status(), absl::AbortedError("replaced"));
  closing.join();
  inbox_.Close(absl::InternalError("later"));
  inbox_.Add(WithSequenceNumber(1));
  Send(StepOf(1));
  EXPECT_EQ(inbox_.Next().status(), absl::AbortedError("replaced"));
  EXPECT_FALSE(inbox_.TakeIfThere().ok());
}

TEST_F(LaneInboxTest, SaysWhatIsWrongWithItsLane) {
  OpenLane();
  const auto peer = LaneSegment::Open(*inbox_.Offer(kInboxWiring), kInboxWiring);
  (*peer)->written().Store(LaneSegment::capacity() + 1);
  EXPECT_EQ(inbox_.Next().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LaneInboxTest, RefusesATurnThatIsOver) {
  LaneWriter writer(*LaneSegment::Open(*inbox_.Offer(kInboxWiring), kInboxWiring));
  ASSERT_TRUE(writer.Write(WithSequenceNumber(1)));
  ASSERT_TRUE(writer.Write(WithSequenceNumber(1)));
  EXPECT_EQ(Take(), 1u);
  EXPECT_THAT(std::string(inbox_.TakeIfThere().status().message()), HasSubstr("after number 1"));
}

TEST_F(LaneInboxTest, RefusesATurnThatIsOverByTheStreamToo) {
  inbox_.Add(WithSequenceNumber(1));
  EXPECT_EQ(Take(), 1u);
  inbox_.Add(WithSequenceNumber(1));
  const absl::Status status = inbox_.TakeIfThere().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("number 1 after number 1"));
}

TEST_F(LaneInboxTest, RefusesATurnThatNoLaneCanLeadTo) {
  inbox_.Add(WithSequenceNumber(~uint64_t{0}));
  const absl::Status status = inbox_.TakeIfThere().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("but not number 1"));
}

TEST_F(LaneInboxTest, KeepsABoundedNumberOfMessagesForATurnThatDoesNotCome) {
  uint64_t number = 2;
  while (inbox_.TakeIfThere().ok() && number < 100'000) inbox_.Add(WithSequenceNumber(number++));
  EXPECT_LT(number, 100'000u);
}

TEST_F(LaneInboxTest, RemainsUsableAfterASleeperIsDamaged) {
  OpenLane();
  const auto peer = LaneSegment::Open(*inbox_.Offer(kInboxWiring), kInboxWiring);
  std::thread sending([&] {
    (*peer)->parked().Store(17);  // no value that a reader writes
    Send(StepOf(1));
  });
  EXPECT_EQ(inbox_.Next()->step().step_id(), 1u);
  sending.join();
}

TEST(LanePump, HandsOnWhatComesUntilItIsClosed) {
  std::vector<uint64_t> steps;  // of the pump's thread, until it ends
  absl::Notification second, ended;
  LanePump<v1::PushRequest> pump({.on_message =
                                      [&](const v1::PushRequest& request) {
                                        steps.push_back(request.step().step_id());
                                        if (steps.size() == 2) second.Notify();
                                      },
                                  .on_end =
                                      [&](const absl::Status& status) {
                                        EXPECT_EQ(status, absl::AbortedError("replaced"));
                                        ended.Notify();
                                      }});
  pump.inbox().Add(StepOf(1));
  pump.inbox().Add(StepOf(2));
  second.WaitForNotification();
  pump.inbox().Close(absl::AbortedError("replaced"));
  ended.WaitForNotification();
  EXPECT_THAT(steps, ElementsAre(1, 2));
}

TEST(LanePump, EndsWithItsOwner) {
  std::atomic<int> ends = 0;
  {
    LanePump<v1::PushRequest> pump({.on_message = [](const v1::PushRequest&) { FAIL(); },
                                    .on_end = [&](const absl::Status&) { ++ends; }});
  }
  EXPECT_EQ(ends, 1);
}

}  // namespace
}  // namespace sluice
