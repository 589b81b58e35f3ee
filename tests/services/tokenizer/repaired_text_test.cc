#include "services/tokenizer/repaired_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

TEST(RepairedText, ReplacesAsLossyUtf8Does) {
  for (const std::string& bytes :
       {std::string("a\xFF\xFE"), std::string("\xE2\x82"), std::string("\xE2\x82z\xE2\x82\xAC"),
        std::string("\xF0\x9F\x98\xC3\xA9\x80"), std::string("\xED\xA0\x80"), std::string("ok")}) {
    std::string expected;
    LossyUtf8 lossy;
    lossy.Append(bytes, &expected);
    lossy.Finish(&expected);
    EXPECT_EQ(RepairedText(bytes).text(), expected);
  }
}

TEST(RepairedText, FindsTheWayBack) {
  // "a", U+FFFD for one byte, "é", U+FFFD for two bytes, "b"
  const RepairedText repaired(
      "a\xFF\xC3\xA9\xE2\x82"
      "b");
  std::vector<ByteRange> offsets = {{0, 1}, {1, 4}, {4, 6}, {6, 9}, {9, 10}, {0, 10}};
  repaired.RestoreOffsets(&offsets);
  EXPECT_THAT(offsets, ElementsAre(ByteRange{0, 1}, ByteRange{1, 2}, ByteRange{2, 4},
                                   ByteRange{4, 6}, ByteRange{6, 7}, ByteRange{0, 7}));
}

}  // namespace
}  // namespace sluice
