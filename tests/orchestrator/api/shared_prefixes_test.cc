#include "orchestrator/api/shared_prefixes.h"

#include <gtest/gtest.h>

#include <numeric>

namespace sluice {
namespace {

std::vector<int32_t> Text(int num_common, std::vector<int32_t> end) {
  std::vector<int32_t> text(num_common);
  std::iota(text.begin(), text.end(), 0);
  text.insert(text.end(), end.begin(), end.end());
  return text;
}

TEST(SharedPrefixes, AreThoseWithTheEarlierTextThatHasMostInCommon) {
  const std::vector<std::vector<int32_t>> texts = {
      Text(20, {100, 101}), Text(40, {100}), Text(40, {100, 7}), Text(3, {5}), Text(40, {100})};
  const std::vector<SharedPrefix> found = FindSharedPrefixes(texts);
  EXPECT_EQ(found[0].with, -1);
  EXPECT_EQ(found[1].with, 0);
  EXPECT_EQ(found[1].num_tokens, 20);
  EXPECT_EQ(found[2].with, 1);
  EXPECT_EQ(found[2].num_tokens, 41);
  EXPECT_EQ(found[3].with, -1);  // three tokens are not worth waiting for
  EXPECT_EQ(found[4].with, 1);   // the first of equals
  EXPECT_EQ(found[4].num_tokens, 41);
}

}  // namespace
}  // namespace sluice
