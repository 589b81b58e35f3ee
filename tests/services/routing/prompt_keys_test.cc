#include "services/routing/prompt_keys.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "services/routing/request_keys.h"

namespace sluice {
namespace {

std::string RandomText(size_t length, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::string text(length, ' ');
  for (char& c : text) c = static_cast<char>('a' + random() % 26);
  return text;
}

PromptKeys KeysOfText(const std::string& text, const std::string& adapter = "") {
  PromptKeyBuilder builder("text", adapter);
  builder.Add(text);
  return builder.Finish();
}

// Of two prompts, how many of the first keys are equal.
size_t Common(const PromptKeys& a, const PromptKeys& b) {
  size_t count = 0;
  while (count < std::min(a.keys.size(), b.keys.size()) && a.keys[count] == b.keys[count]) ++count;
  return count;
}

TEST(PromptKeys, AreAtTheSameBytesOfEveryPrompt) {
  EXPECT_EQ(BytesOfKey(0), 256u);
  EXPECT_EQ(BytesOfKey(31), 8u << 10);
  EXPECT_EQ(BytesOfKey(32), 9u << 10);
  EXPECT_EQ(BytesOfKey(32 + 56 - 1), 64u << 10);
  EXPECT_EQ(BytesOfKey(32 + 56), 68u << 10);
  EXPECT_EQ(BytesOfKey(32 + 56 + 240), (1u << 20) + (64u << 10));
  for (const size_t length :
       {0u, 255u, 256u, 8191u, 8192u, 9215u, 9216u, 65536u, 220000u, 2000000u}) {
    const PromptKeys keys = KeysOfText(RandomText(length));
    EXPECT_EQ(keys.num_bytes, length);
    if (!keys.keys.empty()) {
      EXPECT_LE(BytesOfKey(keys.keys.size() - 1), length);
    }
    EXPECT_GT(BytesOfKey(keys.keys.size()), length);
  }
}

TEST(PromptKeys, OfPromptsThatBeginAlikeAreAlikeUpToThere) {
  const std::string text = RandomText(20000);
  for (const size_t at : {0u, 255u, 256u, 5000u, 19999u}) {
    std::string other = text;
    other[at] = '!';
    const PromptKeys keys = KeysOfText(text), changed = KeysOfText(other + RandomText(5000, 2));
    const size_t common = Common(keys, changed);
    if (common > 0) {
      EXPECT_LE(BytesOfKey(common - 1), at);
    }
    if (common < keys.keys.size()) {
      EXPECT_GT(BytesOfKey(common), at);
    }
  }
}

TEST(PromptKeys, DoNotDependOnHowThePiecesAreCut) {
  const std::string text = RandomText(3000);
  PromptKeyBuilder builder("text", "");
  std::mt19937 random(3);
  for (size_t begin = 0; begin < text.size();) {
    const size_t count = random() % 700;
    builder.Add(absl::string_view(text).substr(begin, count));
    begin += count;
  }
  EXPECT_EQ(builder.Finish().keys, KeysOfText(text).keys);
}

TEST(PromptKeys, TellAdaptersAndKindsApart) {
  const std::string text = RandomText(300);
  EXPECT_NE(KeysOfText(text).keys, KeysOfText(text, "french").keys);
  PromptKeyBuilder other("chat", "");
  other.Add(text);
  EXPECT_NE(KeysOfText(text).keys, other.Finish().keys);
  EXPECT_NE(KeyInScope(1, CacheScope("5:alice")), KeyInScope(1, CacheScope("3:bob")));
}

TEST(RequestKeys, OfAConversationThatGoesOnBeginAlike) {
  v1::GenerateRequest request;
  v1::ChatMessage& first = *request.mutable_chat()->add_messages();
  first.set_role("user");
  first.set_content(RandomText(2000));
  const PromptKeys before = KeysOf(request);
  v1::ChatMessage& answer = *request.mutable_chat()->add_messages();
  answer.set_role("assistant");
  answer.set_content(RandomText(700, 5));
  const PromptKeys after = KeysOf(request);
  EXPECT_EQ(Common(before, after), before.keys.size());
  EXPECT_GT(after.keys.size(), before.keys.size());
  request.mutable_chat()->set_tools_json("[{}]");
  EXPECT_EQ(Common(after, KeysOf(request)), 0u);
}

TEST(RequestKeys, OfTokenIdsHaveFourBytesEach) {
  v1::GenerateRequest request;
  for (int i = 0; i < 200; ++i) request.mutable_token_ids()->add_token_ids(i);
  const PromptKeys keys = KeysOf(request);
  EXPECT_EQ(keys.num_bytes, 800u);
  EXPECT_EQ(keys.NumTokens(/*bytes_per_token=*/3), 200);
  EXPECT_EQ(keys.keys.size(), 3u);
  request.mutable_token_ids()->set_token_ids(70, 9999);
  EXPECT_EQ(Common(keys, KeysOf(request)), 1u);
}

}  // namespace
}  // namespace sluice
