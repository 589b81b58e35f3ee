#include "services/common/random.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace sluice {
namespace {

TEST(RandomNumberTest, DiffersFromDrawToDrawAndFromThreadToThread) {
  constexpr int kThreads = 4, kDraws = 1000;  // many times what is drawn at once
  std::vector<std::vector<uint64_t>> drawn(kThreads);
  std::vector<std::thread> threads;
  for (std::vector<uint64_t>& numbers : drawn) {
    threads.emplace_back([&numbers] {
      for (int i = 0; i < kDraws; ++i) numbers.push_back(RandomNumber());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint64_t> all;
  uint64_t ever_set = 0, always_set = ~uint64_t{0};
  for (const std::vector<uint64_t>& numbers : drawn) {
    for (const uint64_t number : numbers) {
      all.insert(number);
      ever_set |= number;
      always_set &= number;
    }
  }
  EXPECT_EQ(all.size(), kThreads * kDraws);
  EXPECT_EQ(ever_set, ~uint64_t{0});
  EXPECT_EQ(always_set, 0);
}

}  // namespace
}  // namespace sluice
