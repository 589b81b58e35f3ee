#include "services/shard/step_broadcast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "tests/kernels/testing/rank_threads.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Deadline Soon() { return Deadline::After(absl::Seconds(20)); }

// What rank 1 receives while rank 0 does `send`.
absl::Status Receive(const std::function<absl::Status(Communicator&)>& send, v1::ShardExecute& plan,
                     v1::PushStep& rows) {
  const std::string group = UniqueGroupName();
  absl::Status received;
  const absl::Status status = OnEveryRank(2, [&](int rank) -> absl::Status {
    auto communicator = Join(group, rank, 2);
    if (!communicator.ok()) return communicator.status();
    if (rank == 0) return send(**communicator);
    received = ReceiveStep(**communicator, absl::Seconds(20), plan, rows);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return received;
}

TEST(StepBroadcast, BringsPlanAndRows) {
  v1::ShardExecute sent_plan, plan;
  sent_plan.set_step_id(17);
  v1::PushStep sent, rows;
  sent.add_computed_ns(5);
  sent.mutable_hidden()->add_shape(2);
  sent.mutable_hidden()->add_shape(3);
  sent.mutable_hidden()->set_data(std::string(24, 'x'));
  const absl::Status received = Receive(
      [&](Communicator& ranks) { return SendStep(ranks, sent_plan, sent, Soon()); }, plan, rows);
  ASSERT_TRUE(received.ok()) << received;
  EXPECT_EQ(plan.step_id(), 17u);
  EXPECT_EQ(rows.hidden().shape_size(), 2);
  EXPECT_EQ(rows.hidden().data(), std::string(24, 'x'));
  EXPECT_THAT(rows.computed_ns(), ElementsAre(5));
}

TEST(StepBroadcast, RefusesMoreThanAStepCanBe) {
  v1::ShardExecute plan;
  v1::PushStep rows;
  const absl::Status received = Receive(
      [](Communicator& ranks) {
        std::array<uint64_t, 3> header = {1, 2, uint64_t{1} << 40};
        return ranks.Broadcast(
            absl::MakeSpan(reinterpret_cast<std::byte*>(header.data()), sizeof(header)), 0, Soon());
      },
      plan, rows);
  EXPECT_EQ(received.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(received.message()), HasSubstr("announced 1099511627776 bytes"));
}

}  // namespace
}  // namespace sluice::testing
