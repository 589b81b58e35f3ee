#include "services/rows/ring_space.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

namespace sluice {
namespace {

TEST(RingSpace, GivesOneAfterTheOtherUntilNothingIsLeft) {
  RingSpace space(1024);
  EXPECT_EQ(space.Reserve(256), 0u);
  EXPECT_EQ(space.Reserve(1), 256u);
  EXPECT_EQ(space.Reserve(257), 512u);
  EXPECT_EQ(space.Reserve(1), std::nullopt);
  EXPECT_TRUE(space.Take(256));
  EXPECT_EQ(space.Reserve(256), 1024u);
  EXPECT_EQ(space.OffsetOf(1024), 0u);
}

TEST(RingSpace, SkipsTheEndWhereRowsDoNotFitThere) {
  RingSpace space(1024);
  EXPECT_EQ(space.Reserve(512), 0u);
  EXPECT_EQ(space.Reserve(256), 512u);
  EXPECT_TRUE(space.Take(512));
  EXPECT_EQ(space.Reserve(512), 1024u);
  EXPECT_EQ(space.Reserve(256), std::nullopt) << "what was skipped is nobody's";
}

// Otherwise rows of more than half the ring would find no room once a few small ones had passed.
TEST(RingSpace, HasAllItsRoomForWhoeverComesWhenItIsEmpty) {
  RingSpace space(1024);
  EXPECT_EQ(space.Reserve(512), 0u);
  EXPECT_TRUE(space.Take(512));
  EXPECT_EQ(space.Reserve(1024), 1024u);
  EXPECT_EQ(space.Reserve(1), std::nullopt);
}

TEST(RingSpace, NeverHasRoomForMoreThanItIs) {
  RingSpace space(1024);
  EXPECT_EQ(space.Reserve(1025), std::nullopt);
  EXPECT_EQ(space.Reserve(~uint64_t{0}), std::nullopt);
  EXPECT_EQ(space.Reserve(1024), 0u);
}

TEST(RingSpace, DoesNotBelieveThatMoreWasTakenThanGiven) {
  RingSpace space(1024);
  EXPECT_EQ(space.Reserve(256), 0u);
  EXPECT_FALSE(space.Take(257));
  EXPECT_FALSE(space.Take(~uint64_t{0}));
  EXPECT_TRUE(space.Take(256));
  EXPECT_TRUE(space.Take(0)) << "told before, and late";
  EXPECT_EQ(space.Reserve(1024), 1024u);
}

// Whatever is reserved and not taken lies apart, and within the ring.
TEST(RingSpace, NeverGivesBytesThatAreInUse) {
  std::mt19937 random(7);
  constexpr uint64_t kCapacity = 8 * kRingAlignment;
  RingSpace space(kCapacity);
  struct Rows {
    uint64_t position, bytes;
  };
  std::deque<Rows> held;
  int given = 0;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 && !held.empty()) {
      const size_t count = 1 + random() % held.size();
      const Rows last = held[count - 1];
      ASSERT_TRUE(space.Take(last.position + RingBytes(last.bytes)));
      held.erase(held.begin(), held.begin() + static_cast<long>(count));
    }
    const uint64_t bytes = 1 + random() % kCapacity;
    const auto position = space.Reserve(bytes);
    ASSERT_TRUE(position.has_value() || !held.empty()) << "an empty ring has room";
    if (!position.has_value()) continue;
    ++given;
    const uint64_t begin = space.OffsetOf(*position);
    ASSERT_LE(begin + bytes, kCapacity);
    for (const Rows& other : held) {
      const uint64_t from = space.OffsetOf(other.position);
      ASSERT_TRUE(begin >= from + other.bytes || from >= begin + bytes);
    }
    held.push_back({*position, bytes});
  }
  EXPECT_GT(given, 5000);
}

}  // namespace
}  // namespace sluice
