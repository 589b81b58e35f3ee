#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Every byte at its own rank, then these tokens.
std::string RankFile(const std::vector<std::string>& tokens) {
  std::string file;
  int rank = 0;
  const auto add = [&](absl::string_view token) {
    absl::StrAppend(&file, absl::Base64Escape(token), " ", rank++, "\n");
  };
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    add(absl::string_view(&text, 1));
  }
  for (const std::string& token : tokens) add(token);
  return file;
}

std::unique_ptr<const Tokenizer> LoadTiktoken(const std::vector<std::string>& tokens) {
  auto tokenizer =
      Tokenizer::FromTiktoken(RankFile(tokens), "small.tiktoken", *TiktokenPreset("cl100k_base"));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

TEST(Tiktoken, MergesTheLowestRankFirstAndTakesWholeTokens) {
  const auto tokenizer = LoadTiktoken({"bc", "ab", " abc", "\xC3\xA9"});
  EXPECT_THAT(tokenizer->Encode("abc")->ids, ElementsAre('a', 256));
  EXPECT_THAT(tokenizer->Encode("aab")->ids, ElementsAre('a', 257));
  EXPECT_THAT(tokenizer->Encode(" abc")->ids, ElementsAre(258));  // by no merge
  EXPECT_THAT(tokenizer->Encode("é")->ids, ElementsAre(259));
  EXPECT_EQ(*tokenizer->Decode({258, 0xC3, 'x'}), " abc\uFFFDx");
}

TEST(Tiktoken, HasItsPresetsSpecialTokens) {
  const auto tokenizer = LoadTiktoken({});
  EXPECT_THAT(tokenizer->Encode("a<|endoftext|>", {.parse_special = true})->ids,
              ElementsAre('a', 100257));
  EXPECT_EQ(tokenizer->Encode("a<|endoftext|>")->ids.size(), 14);
  EXPECT_EQ(*tokenizer->Decode({'a', 100257}), "a<|endoftext|>");
  EXPECT_EQ(*tokenizer->Decode({'a', 100257}, {.skip_special = true}), "a");
}

TEST(Tiktoken, RefusesWhatIsMalformed) {
  const std::string good = RankFile({});
  for (const auto& [file, message] : std::vector<std::pair<std::string, std::string>>{
           {"YQ==", "line 1 is \"YQ==\"; accepted: a token in base64 and its rank"},
           {"YQ== x\n", "line 1 is \"YQ== x\""},
           {"Y!== 0\n", "line 1 is"},
           {good + "YQ== 256\n", "line 257 is \"YQ== 256\"; accepted: a token and a rank that no"},
           {good + "YWE= 3\n", "line 257 is \"YWE= 3\"; accepted: a token and a rank that no"},
           {"AA== 0\n", "has no token for the byte 1"},
           {good + "YWE= 100257\n", "the special token \"<|endoftext|>\" has the id 100257"}}) {
    const auto tokenizer = Tokenizer::FromTiktoken(file, "bad.tiktoken", *TiktokenPreset("cl100k"));
    ASSERT_FALSE(tokenizer.ok()) << message;
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(message));
  }
}

TEST(TiktokenPreset, KnowsSomeNames) {
  for (const char* name :
       {"gpt2", "r50k_base", "p50k_base", "cl100k_base", "o200k_base", "llama3"}) {
    EXPECT_TRUE(TiktokenPreset(name).has_value()) << name;
  }
  EXPECT_FALSE(TiktokenPreset("x").has_value());
  EXPECT_EQ(TiktokenPreset("llama3")->special_tokens.back().content,
            "<|reserved_special_token_247|>");
}

}  // namespace
}  // namespace sluice
