#include "services/shard/step_broadcast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/clock.h"
#include "tests/kernels/testing/rank_threads.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Deadline Soon() { return Deadline::After(absl::Seconds(20)); }

// What a step brings.
struct Received {
  v1::StageExecute plan;
  v1::PushStep rows;
  std::optional<v1::RowRingOffer> ring;
};

// What rank 1 receives while rank 0 does `send`.
absl::Status Receive(const std::function<absl::Status(Communicator&)>& send, Received& step) {
  const std::string group = UniqueGroupName();
  absl::Status received;
  const absl::Status status = OnEveryRank(2, [&](int rank) -> absl::Status {
    auto communicator = Join(group, rank, 2);
    if (!communicator.ok()) return communicator.status();
    if (rank == 0) return send(**communicator);
    received = ReceiveStep(**communicator, absl::Seconds(20), step.plan, step.rows, step.ring);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return received;
}

TEST(StepBroadcast, BringsPlanAndRows) {
  v1::StageExecute plan;
  plan.set_step_id(17);
  v1::PushStep sent;
  sent.add_computed_ns(5);
  sent.mutable_hidden()->add_shape(2);
  sent.mutable_hidden()->add_shape(3);
  sent.mutable_hidden()->set_data(std::string(24, 'x'));
  Received step;
  const absl::Status received = Receive(
      [&](Communicator& ranks) { return SendStep(ranks, plan, sent, std::nullopt, Soon()); }, step);
  ASSERT_TRUE(received.ok()) << received;
  EXPECT_EQ(step.plan.step_id(), 17u);
  EXPECT_EQ(step.rows.hidden().shape_size(), 2);
  EXPECT_EQ(step.rows.hidden().data(), std::string(24, 'x'));
  EXPECT_THAT(step.rows.computed_ns(), ElementsAre(5));
  EXPECT_FALSE(step.rows.has_in_ring());
  EXPECT_FALSE(step.ring.has_value());
}

TEST(StepBroadcast, BringsRowsInARingAndTheRing) {
  v1::PushStep sent;
  sent.mutable_hidden()->add_shape(2);
  sent.mutable_in_ring()->set_position(512);
  v1::RowRingOffer offer;
  offer.set_handle(std::string("\0\1", 2));
  offer.set_capacity_bytes(1024);
  Received step;
  const absl::Status received =
      Receive([&](Communicator& ranks) { return SendStep(ranks, {}, sent, offer, Soon()); }, step);
  ASSERT_TRUE(received.ok()) << received;
  EXPECT_EQ(step.rows.in_ring().position(), 512u);
  ASSERT_TRUE(step.ring.has_value());
  EXPECT_EQ(step.ring->handle(), offer.handle());
  EXPECT_EQ(step.ring->capacity_bytes(), 1024u);
}

TEST(StepBroadcast, RefusesMoreThanAStepCanBe) {
  Received step;
  const absl::Status received = Receive(
      [](Communicator& ranks) {
        std::array<uint64_t, 4> header = {1, 2, uint64_t{1} << 40, 0};
        return ranks.Broadcast(
            absl::MakeSpan(reinterpret_cast<std::byte*>(header.data()), sizeof(header)), 0, Soon());
      },
      step);
  EXPECT_EQ(received.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(received.message()), HasSubstr("announced 1099511627776 bytes"));
}

// A ring is used by all ranks or by none.
TEST(StepBroadcast, RanksAgreeOnARing) {
  for (const int unable : {-1, 0, 2}) {
    const std::string group = UniqueGroupName();
    std::array<absl::Status, 4> opened;
    const absl::Status status = OnEveryRank(4, [&](int rank) -> absl::Status {
      auto communicator = Join(group, rank, 4);
      if (!communicator.ok()) return communicator.status();
      if (rank == unable) opened[rank] = absl::NotFoundError("elsewhere");
      return AgreeOnRing(**communicator, opened[rank], Soon());
    });
    ASSERT_TRUE(status.ok()) << status;
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(opened[rank].ok(), unable < 0) << rank << " of 4, " << unable << " can't";
    }
    if (unable == 2) {
      EXPECT_THAT(std::string(opened[0].message()), HasSubstr("rank 2"));
    }
  }
}

}  // namespace
}  // namespace sluice::testing
