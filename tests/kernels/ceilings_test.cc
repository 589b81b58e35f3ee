#include "tests/kernels/ceilings.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <vector>

namespace sluice::testing {
namespace {

TEST(ReadPatterns, DifferInStreamsPrefetchChunksAndPages) {
  std::set<int> streams;
  std::set<size_t> ahead, chunks;
  std::set<bool> pages;
  std::set<std::tuple<int, size_t, size_t, bool>> all;
  const std::vector<ReadPattern> patterns = ReadPatterns();
  for (const ReadPattern& one : patterns) {
    streams.insert(one.streams);
    ahead.insert(one.ahead);
    chunks.insert(one.chunk);
    pages.insert(one.huge_pages);
    all.insert({one.streams, one.ahead, one.chunk, one.huge_pages});
  }
  EXPECT_EQ(streams, (std::set<int>{1, 2, 4, 8}));
  EXPECT_TRUE(ahead.count(0) == 1 && ahead.size() > 1);
  EXPECT_GT(chunks.size(), 1u);
  EXPECT_EQ(pages, (std::set<bool>{false, true}));
  EXPECT_EQ(all.size(), patterns.size());
  EXPECT_EQ(all.size(), streams.size() * ahead.size() * chunks.size() * pages.size());
}

// Whichever is fastest on some machine is the ceiling there, small pages too.
TEST(BestPattern, IsTheFastestOfAllWhicheverItIs) {
  const std::vector<ReadPattern> patterns = ReadPatterns();
  for (size_t fastest = 0; fastest < patterns.size(); ++fastest) {
    size_t asked = 0;
    const ReadPattern best = BestPattern(patterns, [&](const ReadPattern&) {
      return asked++ % patterns.size() == fastest ? 2e9 : 1e9;
    });
    const ReadPattern& expected = patterns[fastest];
    EXPECT_EQ(std::tie(best.streams, best.ahead, best.chunk, best.huge_pages),
              std::tie(expected.streams, expected.ahead, expected.chunk, expected.huge_pages));
  }
}

TEST(BestPattern, AsksAllInTurnsSoThatAMomentDoesNotDecide) {
  const std::vector<ReadPattern> patterns = ReadPatterns();
  std::vector<int> streams;
  // Slow while the first turn lasts, but for the first pattern; then the last one is fastest.
  const ReadPattern best = BestPattern(patterns, [&](const ReadPattern& pattern) {
    const size_t turn = streams.size() / patterns.size(), index = streams.size() % patterns.size();
    streams.push_back(pattern.streams);
    if (turn == 0) return index == 0 ? 2e9 : 1e9;
    return index + 1 == patterns.size() ? 4e9 : 3e9;
  });
  EXPECT_EQ(streams.size() % patterns.size(), 0u);
  EXPECT_GT(streams.size(), patterns.size());
  EXPECT_EQ(best.streams, patterns.back().streams);
  EXPECT_EQ(best.huge_pages, patterns.back().huge_pages);
}

}  // namespace
}  // namespace sluice::testing
