#include "services/model/digest/digest_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

const std::string kDigest(64, 'a');

struct stat About(const std::string& path) {
  struct stat about = {};
  EXPECT_EQ(stat(path.c_str(), &about), 0);
  return about;
}

TEST(DigestCache, FindsWhatItKept) {
  const testing::TempFolder folder;
  const std::string file = folder.Write("weights", "1");
  const std::string place = folder.PathOf("cache/of/sluice");
  EXPECT_EQ(DigestCache(place).Find(About(file)), std::nullopt);
  DigestCache(place).Keep(About(file), kDigest);
  EXPECT_EQ(DigestCache(place).Find(About(file)), kDigest);
}

TEST(DigestCache, DoesNotTakeAFileForWhatItWas) {
  const testing::TempFolder folder;
  const std::string file = folder.Write("weights", "1");
  const DigestCache cache(folder.PathOf("cache"));
  cache.Keep(About(file), kDigest);
  std::filesystem::last_write_time(
      file, std::filesystem::last_write_time(file) + std::chrono::seconds(1));
  EXPECT_EQ(cache.Find(About(file)), std::nullopt);
}

TEST(DigestCache, IgnoresWhatIsNoDigest) {
  const testing::TempFolder folder;
  const std::string file = folder.Write("weights", "1");
  const DigestCache cache(folder.PathOf("cache"));
  cache.Keep(About(file), "cut off");
  EXPECT_EQ(cache.Find(About(file)), std::nullopt);
}

TEST(DigestCache, DoesWithoutAFolder) {
  const testing::TempFolder folder;
  const std::string file = folder.Write("weights", "1");
  for (const std::string& place : {std::string(), folder.PathOf("weights/below/a/file")}) {
    const DigestCache cache(place);
    cache.Keep(About(file), kDigest);
    EXPECT_EQ(cache.Find(About(file)), std::nullopt);
  }
}

}  // namespace
}  // namespace sluice
