// Slots of adapters: who gets one, what the shards are told, and who waits.

#include "orchestrator/scheduler/adapter_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(AdapterSlotsTest, SequencesOfOneAdapterShareItsSlot) {
  AdapterSlots slots(2);
  EXPECT_TRUE(slots.MayRun("a", 1, false));
  slots.Acquire("a", 1);
  slots.Acquire("a", 2);
  EXPECT_THAT(slots.TakeChanges(), ElementsAre(AdapterChange{0, "a"}));
  EXPECT_THAT(slots.TakeChanges(), IsEmpty());
  EXPECT_EQ(slots.SlotOf("a"), 0);
  EXPECT_EQ(slots.SlotOf("b"), -1);
}

TEST(AdapterSlotsTest, SequencesWithoutAdapterNeedNone) {
  AdapterSlots slots(0);
  EXPECT_TRUE(slots.MayRun("", 1, false));
  EXPECT_FALSE(slots.MayRun("a", 2, false));
}

TEST(AdapterSlotsTest, TheLeastRecentlyUsedIdleAdapterGivesWay) {
  AdapterSlots slots(2);
  slots.Acquire("a", 1);
  slots.Acquire("b", 2);
  slots.Release("b");
  slots.Release("a");
  slots.TakeChanges();
  slots.Acquire("c", 3);
  EXPECT_THAT(slots.TakeChanges(), ElementsAre(AdapterChange{1, "c"}));
  slots.Acquire("a", 4);  // which has stayed
  EXPECT_THAT(slots.TakeChanges(), IsEmpty());
  EXPECT_FALSE(slots.MayRun("b", 5, false));
}

TEST(AdapterSlotsTest, WhatIsInUseIsToldAgainAfterALoss) {
  AdapterSlots slots(2);
  slots.Acquire("a", 1);
  slots.Acquire("b", 2);
  slots.Release("b");
  slots.TakeChanges();
  slots.ForgetTold();
  EXPECT_THAT(slots.TakeChanges(), ElementsAre(AdapterChange{0, "a"}));
  EXPECT_EQ(slots.num_loaded(), 1);
}

TEST(AdapterSlotsTest, ADroppedAdapterIsEmptiedOnceItIsIdle) {
  AdapterSlots slots(1);
  slots.Acquire("a", 1);
  slots.TakeChanges();
  EXPECT_FALSE(slots.Drop("a"));
  slots.Release("a");
  EXPECT_TRUE(slots.Drop("a"));
  EXPECT_THAT(slots.TakeChanges(), ElementsAre(AdapterChange{0, ""}));
}

// A stream of requests for loaded adapters does not keep out one that needs a slot.
TEST(AdapterSlotsTest, AWaitingSequenceIsNotOvertakenForEver) {
  AdapterSlots slots(1);
  uint64_t next = 1;
  slots.Acquire("hot", next++);
  const uint64_t waiter = next++;
  EXPECT_FALSE(slots.MayRun("cold", waiter, false));
  int overtakers = 0;
  while (slots.MayRun("hot", next, false)) {
    slots.Acquire("hot", next++);
    slots.Release("hot");
    ASSERT_LE(++overtakers, AdapterSlots::kMaxOvertakers);
  }
  EXPECT_EQ(overtakers, AdapterSlots::kMaxOvertakers);
  slots.Release("hot");
  EXPECT_FALSE(slots.MayRun("hot", next, false));
  EXPECT_TRUE(slots.MayRun("hot", next, /*has_begun=*/true));
  EXPECT_TRUE(slots.MayRun("cold", next, false));
  ASSERT_TRUE(slots.MayRun("cold", waiter, false));
  slots.Acquire("cold", waiter);
  slots.Release("cold");
  EXPECT_TRUE(slots.MayRun("hot", next, false));
}

TEST(AdapterSlotsTest, AWaiterThatLeavesKeepsNobodyOut) {
  AdapterSlots slots(1);
  slots.Acquire("hot", 1);
  EXPECT_FALSE(slots.MayRun("cold", 2, false));
  for (int i = 0; i < AdapterSlots::kMaxOvertakers; ++i) slots.Acquire("hot", 3 + i);
  EXPECT_FALSE(slots.MayRun("hot", 100, false));
  slots.ForgetWaiter(2);
  EXPECT_TRUE(slots.MayRun("hot", 100, false));
}

TEST(AdapterSlotsTest, RandomUseKeepsItsBooks) {
  std::mt19937 random(1);
  AdapterSlots slots(4);
  std::vector<std::string> running;
  absl::flat_hash_map<std::string, int32_t> holders;
  std::vector<std::string> told(4);  // as the shards have it
  for (uint64_t i = 1; i < 5000; ++i) {
    const std::string adapter = std::string(1, static_cast<char>('a' + random() % 9));
    if (random() % 2 == 0 && slots.MayRun(adapter, i, false)) {
      slots.Acquire(adapter, i);
      running.push_back(adapter);
      ++holders[adapter];
    } else if (!running.empty()) {
      std::swap(running[random() % running.size()], running.back());
      slots.Release(running.back());
      if (--holders[running.back()] == 0) holders.erase(running.back());
      running.pop_back();
    }
    slots.ForgetWaiter(i);
    if (random() % 50 == 0) {
      slots.ForgetTold();
      told.assign(4, "");
    }
    if (random() % 3 == 0) {
      for (const AdapterChange& change : slots.TakeChanges()) told[change.slot] = change.adapter;
      for (const std::string& each : running) ASSERT_EQ(told[slots.SlotOf(each)], each);
    }
    ASSERT_TRUE(slots.CheckIntegrity(holders).ok()) << slots.CheckIntegrity(holders);
  }
}

}  // namespace
}  // namespace sluice
