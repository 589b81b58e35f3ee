#include "services/tokenizer/models/rank_queue.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>

namespace sluice {
namespace {

// Against a sorted set, over many words, with ranks that come back while they are being taken.
TEST(RankQueue, GivesPlacesInOrder) {
  constexpr uint32_t kRanks = 9;
  std::mt19937 random(3);
  RankQueue queue;
  for (int word = 0; word < 50; ++word) {
    queue.Prepare(kRanks);
    std::multiset<std::pair<uint32_t, uint32_t>> expected;
    const auto push = [&] {
      const uint32_t rank = random() % kRanks;
      const uint32_t at = random() % 100;
      queue.Push({rank, at});
      expected.emplace(rank, at);
    };
    for (int i = 0; i < 60; ++i) push();
    int num_more = 200;
    while (!expected.empty()) {
      ASSERT_FALSE(queue.empty());
      const RankQueue::Place place = queue.Pop();
      ASSERT_EQ(std::make_pair(place.rank, place.at), *expected.begin());
      expected.erase(expected.begin());
      if (num_more > 0 && random() % 2 == 0) push(), --num_more;
    }
    EXPECT_TRUE(queue.empty());
  }
}

}  // namespace
}  // namespace sluice
