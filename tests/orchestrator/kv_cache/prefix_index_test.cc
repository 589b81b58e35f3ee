#include "orchestrator/kv_cache/prefix_index.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

using BlockTokens = std::vector<TokenId>;

TEST(PrefixIndex, FindsABlockByItsParentAndTokens) {
  PrefixIndex index(4, 2);
  const PrefixIndex::Place root = index.AcquireRoot({});
  EXPECT_EQ(index.FindOrInsert(3, root, BlockTokens{1, 2}), 3);
  EXPECT_EQ(index.FindOrInsert(0, index.PlaceOf(3), BlockTokens{1, 2}), 0);
  EXPECT_EQ(index.FindOrInsert(1, root, BlockTokens{1, 2}), 3) << "known already";
  EXPECT_FALSE(index.Contains(1));
  EXPECT_EQ(index.Find(root, BlockTokens{1, 2}), 3);
  EXPECT_EQ(index.Find(index.PlaceOf(3), BlockTokens{1, 2}), 0);
  EXPECT_EQ(index.Find(index.PlaceOf(0), BlockTokens{1, 2}), std::nullopt);
  EXPECT_EQ(index.Find(root, BlockTokens{2, 1}), std::nullopt);
  EXPECT_TRUE(index.CheckIntegrity().ok());
}

// A block that is taken and known again stands at another place: what came after the first is not
// found after the second.
TEST(PrefixIndex, NeverUsesAPlaceAgain) {
  PrefixIndex index(4, 1);
  const PrefixIndex::Place root = index.AcquireRoot({});
  index.FindOrInsert(0, root, BlockTokens{1});
  index.FindOrInsert(1, index.PlaceOf(0), BlockTokens{2});
  index.Remove(0);
  index.FindOrInsert(0, root, BlockTokens{1});
  EXPECT_EQ(index.Find(index.PlaceOf(0), BlockTokens{2}), std::nullopt);
  EXPECT_TRUE(index.CheckIntegrity().ok());
}

TEST(PrefixIndex, KeepsARootWhileItIsHeldOrHasNodes) {
  PrefixIndex index(4, 1);
  const PrefixDomain domain = {.salt = "a", .adapter = "", .length_like = 0};
  const PrefixIndex::Place root = index.AcquireRoot(domain);
  EXPECT_EQ(index.AcquireRoot(domain), root);
  index.FindOrInsert(0, root, BlockTokens{1});
  index.ReleaseRoot(root);
  index.ReleaseRoot(root);
  EXPECT_EQ(index.AcquireRoot(domain), root) << "a node stands under it";
  index.ReleaseRoot(root);
  index.Remove(0);
  EXPECT_NE(index.AcquireRoot(domain), root);
}

TEST(PrefixIndex, EvictsInTheOrderInWhichBlocksBecameIdle) {
  PrefixIndex index(4, 1);
  const PrefixIndex::Place root = index.AcquireRoot({});
  for (const BlockId block : {0, 1, 2, 3}) index.FindOrInsert(block, root, BlockTokens{block});
  for (const BlockId block : {2, 0, 3, 1}) index.MakeIdle(block);
  index.MakeUsed(0);
  index.MakeIdle(0);
  index.MakeUsed(3);
  EXPECT_TRUE(index.CheckIntegrity().ok()) << index.CheckIntegrity();
  EXPECT_EQ(index.num_idle(), 3);
  EXPECT_EQ(index.Evict(), 2);
  EXPECT_EQ(index.Evict(), 1);
  EXPECT_EQ(index.Evict(), 0);
  EXPECT_EQ(index.num_idle(), 0);
  EXPECT_EQ(index.num_nodes(), 1);
  EXPECT_TRUE(index.CheckIntegrity().ok());
}

}  // namespace
}  // namespace sluice
