#include "services/model/digest/model_digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;

std::string Weights() { return testing::SafetensorsBytes(testing::TinyLlamaTensors(DType::kF32)); }

TEST(WeightsDigest, IsThatOfTheBytesWhereverTheyAre) {
  const TempFolder one;
  const TempFolder other;
  one.Write("model.safetensors", Weights());
  other.Write("model.safetensors", Weights());
  other.Write("config.json", "{}");
  const absl::StatusOr<std::string> digest = WeightsDigest(one.path());
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_EQ(digest->size(), 64u);
  EXPECT_EQ(*WeightsDigest(other.path()), *digest);
}

TEST(WeightsDigest, IsAnotherForEveryByte) {
  const TempFolder folder;
  folder.Write("model.safetensors", Weights());
  const std::string before = *WeightsDigest(folder.path());
  std::string bytes = Weights();
  bytes.back() ^= 1;
  folder.Write("model.safetensors", bytes);
  EXPECT_NE(*WeightsDigest(folder.path()), before);
}

TEST(WeightsDigest, NeedsWeights) {
  const TempFolder folder;
  EXPECT_EQ(WeightsDigest(folder.path()).status().code(), absl::StatusCode::kNotFound);
}

TEST(TokenizerDigest, IsOfAllFilesThatSayWhatTextBecomes) {
  const TempFolder folder;
  EXPECT_EQ(*TokenizerDigest(folder.path()), "");
  std::string before;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                           "spiece.model", "words.tiktoken"}) {
    folder.Write(name, "1");
    const std::string with = *TokenizerDigest(folder.path());
    EXPECT_NE(with, before) << name;
    folder.Write(name, "2");
    EXPECT_NE(*TokenizerDigest(folder.path()), with) << name;
    before = *TokenizerDigest(folder.path());
  }
  folder.Write("config.json", "{}");
  EXPECT_EQ(*TokenizerDigest(folder.path()), before);
}

TEST(TokenizerDigest, IsNotHeldUpByAFifoWithTheNameOfAFile) {
  for (const char* name : {"x.tiktoken", "added_tokens.json", "tokenizer.json"}) {
    const TempFolder folder;
    ASSERT_EQ(mkfifo(folder.PathOf(name).c_str(), 0600), 0);
    const absl::Status status = TokenizerDigest(folder.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("not a regular file"));
  }
}

}  // namespace
}  // namespace sluice
