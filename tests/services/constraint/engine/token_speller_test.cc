#include "services/constraint/engine/token_speller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

// The pieces of a text under a vocabulary of all printable ASCII characters and `merges`.
std::vector<std::string> Pieces(const std::vector<std::string>& merges, const std::string& text) {
  std::vector<std::string> bytes = {""};
  for (char c = ' '; c <= '~'; ++c) bytes.emplace_back(1, c);
  bytes.insert(bytes.end(), merges.begin(), merges.end());
  std::vector<std::string> pieces;
  for (const int32_t token : TokenSpeller(bytes).Spell(text)) pieces.push_back(bytes[token]);
  return pieces;
}

TEST(TokenSpeller, MergesInTheOrderOfIds) {
  EXPECT_THAT(Pieces({}, "abc"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Pieces({"ab", "bc"}, "abc"), ElementsAre("ab", "c"));
  EXPECT_THAT(Pieces({"bc", "ab"}, "abc"), ElementsAre("a", "bc"));
  EXPECT_THAT(Pieces({"bc", "ab", "abc"}, "abc"), ElementsAre("abc"));
  // Not the longest token, but what merges lead to.
  EXPECT_THAT(Pieces({"bc", "abcd"}, "abcd"), ElementsAre("a", "bc", "d"));
  EXPECT_THAT(Pieces({"aa", "aaaa"}, "aaaaaa"), ElementsAre("aaaa", "aa"));
  EXPECT_THAT(Pieces({"in", "en", "na", "me", "name", "\":", " \""}, "\"name\": \"in"),
              ElementsAre("\"", "name", "\":", " \"", "in"));
}

TEST(TokenSpeller, HasNothingToSayOfBytesWithoutTokens) {
  EXPECT_TRUE(Pieces({}, "").empty());
  EXPECT_TRUE(Pieces({}, "a\x80").empty());
}

TEST(TokenSpeller, PrefersTheLaterOfTwoTokensOfOneByte) {
  const std::vector<std::string> bytes = {"a", "b", "a", "ab", "ab"};
  EXPECT_THAT(TokenSpeller(bytes).Spell("a"), ElementsAre(2));
  EXPECT_THAT(TokenSpeller(bytes).Spell("ab"), ElementsAre(3));
}

TEST(TokenSpeller, WhatItSpellsIsTheText) {
  std::mt19937 random(7);
  std::vector<std::string> merges;
  const auto word = [&](size_t most) {
    std::string text;
    for (size_t n = 1 + random() % most; n > 0; --n) text.push_back("abc"[random() % 3]);
    return text;
  };
  for (int i = 0; i < 60; ++i) merges.push_back(word(6) + word(1));
  for (int i = 0; i < 500; ++i) {
    const std::string text = word(40);
    EXPECT_EQ(absl::StrJoin(Pieces(merges, text), ""), text);
  }
}

}  // namespace
}  // namespace sluice
