#include "orchestrator/kv_cache/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(BlockPool, HandsOutEveryBlockOnceInOrderAndThenNothing) {
  BlockPool pool(3);
  EXPECT_EQ(pool.Allocate(), 0);
  EXPECT_EQ(pool.Allocate(), 1);
  EXPECT_EQ(pool.Allocate(), 2);
  EXPECT_EQ(pool.Allocate(), std::nullopt);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.num_used(), 3);
}

TEST(BlockPool, ReusesTheBlockReleasedLast) {
  BlockPool pool(3);
  for (int i = 0; i < 3; ++i) pool.Allocate();
  pool.Release(2);
  pool.Release(0);
  EXPECT_EQ(pool.Allocate(), 0);
  EXPECT_EQ(pool.Allocate(), 2);
}

TEST(BlockPool, FreesABlockWithItsLastReference) {
  BlockPool pool(1);
  pool.Allocate();
  pool.AddReference(0);
  pool.Release(0);
  EXPECT_EQ(pool.references(0), 1);
  EXPECT_EQ(pool.Allocate(), std::nullopt);
  pool.Release(0);
  EXPECT_EQ(pool.references(0), 0);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
  EXPECT_EQ(pool.Allocate(), 0);
}

TEST(BlockPoolDeathTest, AbortsWhereABlockIsReleasedOnceTooOften) {
  BlockPool pool(2);
  pool.Allocate();
  pool.Release(0);
  EXPECT_DEATH(pool.Release(0), "broken invariant");
  EXPECT_DEATH(pool.AddReference(1), "broken invariant");
  EXPECT_DEATH(pool.references(2), "broken invariant");
}

}  // namespace
}  // namespace sluice
