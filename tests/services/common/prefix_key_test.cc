#include "services/common/prefix_key.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace sluice {
namespace {

const ModelKeyParts kModel = {.configuration = "0123456789abcdef",
                              .weights = "digest",
                              .arithmetic = "cpu avx512",
                              .block_size = 16};

// A key that changed would make blocks on disks and replicas of another version unknown, or, worse,
// known by the key of others: raise a version and say so in docs/decisions/081.
TEST(PrefixKey, IsTheSameNumberInEveryProcessOfEveryBuild) {
  EXPECT_EQ(KeyOfBytes(""), 0x792ddce7fe9f769fu);
  EXPECT_EQ(KeyOfBytes("The quick brown fox jumps over the lazy dog, twice."), 0xa0cb9bc5c5855a77u);
  const PrefixKey model = ModelKey(kModel);
  EXPECT_EQ(model, 0xe8ae077ba737dfd7u);
  const PrefixKey domain = DomainKey(model, "5:alice", "adapter", 4096);
  EXPECT_EQ(domain, 0x468bcc42ee54bf03u);
  const std::vector<int32_t> tokens = {1, 2, 3, 128000, 0, 7, 8};
  const PrefixKey block = BlockKey(domain, tokens);
  EXPECT_EQ(block, 0xde9c002b6e442381u);
  EXPECT_EQ(BlockKey(block, tokens), 0x923655f909ea1e93u);
}

TEST(PrefixKey, DependsOnEachPartOfModelAndDomain) {
  const auto key = [](const ModelKeyParts& parts, const std::string& salt,
                      const std::string& adapter, int32_t length_like) {
    return DomainKey(ModelKey(parts), salt, adapter, length_like);
  };
  std::set<PrefixKey> keys = {key(kModel, "salt", "adapter", 1)};
  ModelKeyParts other = kModel;
  other.configuration = "x";
  keys.insert(key(other, "salt", "adapter", 1));
  other = kModel;
  other.weights = "x";
  keys.insert(key(other, "salt", "adapter", 1));
  other = kModel;
  other.arithmetic = "x";
  keys.insert(key(other, "salt", "adapter", 1));
  other = kModel;
  other.block_size = 32;
  keys.insert(key(other, "salt", "adapter", 1));
  keys.insert(key(kModel, "tenant", "adapter", 1));
  keys.insert(key(kModel, "salt", "x", 1));
  keys.insert(key(kModel, "adapter", "salt", 1));
  keys.insert(key(kModel, "salta", "dapter", 1));
  keys.insert(key(kModel, "salt", "adapter", 2));
  EXPECT_EQ(keys.size(), 10u);
}

TEST(PrefixKey, DependsOnEveryTokenAndTheOrder) {
  std::set<PrefixKey> keys = {BlockKey(1, {1, 2, 3}), BlockKey(1, {1, 3, 2}),
                              BlockKey(1, {3, 2, 1}), BlockKey(2, {1, 2, 3}),
                              BlockKey(1, {1, 2}),    BlockKey(1, {1, 2, 0}),
                              BlockKey(1, {1, 2, 4})};
  EXPECT_EQ(keys.size(), 7u);
  // Two blocks are not one of all their tokens: sizes of blocks count.
  EXPECT_NE(BlockKey(BlockKey(1, {1, 2}), {3, 4}), BlockKey(1, {1, 2, 3, 4}));
}

TEST(PrefixKey, OfTextsDependsOnEveryByteAndTheLength) {
  std::set<PrefixKey> keys;
  for (size_t length = 0; length < 300; ++length) {
    EXPECT_TRUE(keys.insert(KeyOfBytes(std::string(length, '\0'))).second) << length;
    for (size_t i = 0; i < length; i += 7) {
      std::string text(length, '\0');
      text[i] = '\1';
      EXPECT_TRUE(keys.insert(KeyOfBytes(text)).second) << length << " " << i;
    }
  }
}

}  // namespace
}  // namespace sluice
