#include "services/shard/kv_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kGib = uint64_t{1} << 30;
// Llama-3.1-8B: 16 positions of 32 layers, 8 heads of 128, F32.
constexpr uint64_t kBlock = uint64_t{2} * 32 * 16 * 8 * 128 * 4;

KvDemand Asked(uint64_t bytes) { return {.bytes = bytes, .bytes_per_block = kBlock}; }

TEST(CountsWithin, AreWholeBlocks) {
  EXPECT_EQ(CountsWithin(Asked(3 * kBlock + 1))->num_blocks, 3);
  EXPECT_EQ(CountsWithin(Asked(0)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CountsWithin(Asked(kBlock - 1)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CountsWithin, LeaveRoomForSlots) {
  KvDemand demand{.bytes = 1000, .block_size = 64, .bytes_per_block = 10, .bytes_per_slot = 100};
  EXPECT_EQ(CountsWithin(demand)->num_blocks, 50);
  EXPECT_EQ(CountsWithin(demand)->num_state_slots, 5);
  demand.num_state_slots = 9;
  EXPECT_EQ(CountsWithin(demand)->num_blocks, 10);
  EXPECT_EQ(CountsWithin(demand)->num_state_slots, 9);
  demand.num_state_slots = 10;
  EXPECT_EQ(CountsWithin(demand).status().message(),
            "kv_cache_bytes is 1000; accepted for this model: 1010, a block of 64 positions and 10 "
            "slots for states, or more");
}

TEST(BlocksOnDevice, AreThoseAskedForWhereTheyFit) {
  const DeviceRoom room{.memory = {.total_bytes = 100 * kGib, .free_bytes = 12 * kGib}};
  EXPECT_EQ(BlocksOnDevice(Asked(10 * kGib), room).value(), 10 * kGib / kBlock);
}

TEST(BlocksOnDevice, SayHowManyWouldFit) {
  const DeviceRoom room{.memory = {.total_bytes = 100 * kGib, .free_bytes = 12 * kGib},
                        .held = 80 * kGib};
  const absl::Status status = BlocksOnDevice(Asked(11 * kGib), room).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("of 11.0 GiB do not fit"),
            HasSubstr("of 100.0 GiB the device has 12.0 GiB free"), HasSubstr("holding 80.0 GiB"),
            HasSubstr("2560 blocks would fit, 40960 positions"),
            HasSubstr("--kv_cache_mib 10240")));
  EXPECT_EQ(BlocksOnDevice(Asked(10240 * (uint64_t{1} << 20)), room).value(), 2560);
}

TEST(BlocksOnDevice, TakeWhatTheShareLeaves) {
  DeviceRoom room{.memory = {.total_bytes = 100 * kGib, .free_bytes = 75 * kGib},
                  .held = 20 * kGib,
                  .share = 0.8};
  EXPECT_EQ(BlocksOnDevice(Asked(0), room).value(), 60 * kGib / kBlock);
  // Another process has taken the rest.
  room.memory.free_bytes = 7 * kGib;
  EXPECT_EQ(BlocksOnDevice(Asked(0), room).value(), 5 * kGib / kBlock);
}

TEST(BlocksOnDevice, SayThatThereIsNoRoomAtAll) {
  DeviceRoom room{
      .memory = {.total_bytes = 16 * kGib, .free_bytes = kBlock}, .held = 15 * kGib, .share = 0.8};
  const absl::Status full = BlocksOnDevice(Asked(0), room).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("not one block would fit"));
  // The weights alone are more than the share, though there is room.
  room.memory.free_bytes = kGib;
  EXPECT_THAT(std::string(BlocksOnDevice(Asked(0), room).status().message()),
              AllOf(HasSubstr("may hold 80%"), HasSubstr("blocks would fit")));
}

}  // namespace
}  // namespace sluice
