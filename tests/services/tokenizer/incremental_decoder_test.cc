#include "services/tokenizer/incremental_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "services/tokenizer/text/utf8.h"
#include "tests/fuzz/fuzz_tokenizer.h"
#include "tests/services/tokenizer/test_tokenizers.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

// Bytes of all tokens joined, then read as UTF-8: what a byte-level decoder means.
std::string PlainDecode(const Tokenizer& tokenizer, absl::Span<const TokenId> ids,
                        const DecodeOptions& options) {
  LossyUtf8 utf8;
  std::string text;
  for (const TokenId id : ids) {
    if (options.skip_special && tokenizer.IsSpecial(id)) continue;
    utf8.Append(tokenizer.TokenBytes(id), &text);
  }
  utf8.Finish(&text);
  return text;
}

class StreamedText : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "storyteller") {
      tokenizer_ = testing::LoadOrFail(testing::ProjectPath("models/storyteller"));
    } else {
      const std::string name = "tokenizers/" + GetParam();
      SLUICE_SKIP_WITHOUT(name);
      tokenizer_ = testing::LoadOrFail(*testing::TestData(name));
    }
    ASSERT_NE(tokenizer_, nullptr);
    for (TokenId id = 0; id < tokenizer_->id_limit(); ++id) {
      if (!tokenizer_->HasToken(id)) continue;
      all_.push_back(id);
      if (FirstInvalidUtf8(tokenizer_->TokenBytes(id)) != std::string::npos) partial_.push_back(id);
    }
    ASSERT_FALSE(partial_.empty());
  }

  // Half of them parts of characters.
  std::vector<TokenId> RandomIds(std::mt19937& random) const {
    std::vector<TokenId> ids(random() % 40);
    for (TokenId& id : ids) {
      id = random() % 2 == 0 ? all_[random() % all_.size()] : partial_[random() % partial_.size()];
    }
    return ids;
  }

  std::unique_ptr<const Tokenizer> tokenizer_;
  std::vector<TokenId> all_;
  std::vector<TokenId> partial_;
};

TEST_P(StreamedText, PiecesJoinToTheWholeText) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const std::vector<TokenId> ids = RandomIds(random);
    const DecodeOptions options{.skip_special = random() % 2 == 0};
    const std::string expected = PlainDecode(*tokenizer_, ids, options);
    ASSERT_EQ(tokenizer_->Decode(ids, options).value(), expected) << "seed " << seed;
    IncrementalDecoder decoder(*tokenizer_, options);
    std::string text;
    for (size_t at = 0; at < ids.size();) {
      const size_t size = std::min<size_t>(1 + random() % 3, ids.size() - at);
      const auto piece = decoder.Append(absl::MakeConstSpan(ids).subspan(at, size));
      ASSERT_TRUE(piece.ok()) << piece.status();
      ASSERT_EQ(FirstInvalidUtf8(*piece), std::string::npos) << "seed " << seed;
      text += *piece;
      at += size;
      // Held back is at most one unfinished character.
      const std::string so_far =
          PlainDecode(*tokenizer_, absl::MakeConstSpan(ids).first(at), options);
      ASSERT_TRUE(so_far == text || so_far == text + "\uFFFD") << "seed " << seed;
    }
    text += decoder.Finish();
    ASSERT_EQ(text, expected) << "seed " << seed;
  }
}

TEST_P(StreamedText, ContinuesAPrompt) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const std::vector<TokenId> prompt = RandomIds(random);
    const std::vector<TokenId> generated = RandomIds(random);
    std::vector<TokenId> all = prompt;
    all.insert(all.end(), generated.begin(), generated.end());
    IncrementalDecoder decoder(*tokenizer_);
    ASSERT_TRUE(decoder.Prime(prompt).ok());
    const auto piece = decoder.Append(generated);
    ASSERT_TRUE(piece.ok()) << piece.status();
    const std::string continuation = *piece + decoder.Finish();
    const std::string whole = tokenizer_->Decode(all).value();
    ASSERT_GE(whole.size(), continuation.size());
    ASSERT_EQ(whole.substr(whole.size() - continuation.size()), continuation) << "seed " << seed;
    // What was left out is the prompt's text, but for a character that it leaves unfinished.
    const std::string prompt_text = whole.substr(0, whole.size() - continuation.size());
    const std::string prompt_alone = tokenizer_->Decode(prompt).value();
    ASSERT_TRUE(prompt_alone == prompt_text || prompt_alone == prompt_text + "\uFFFD")
        << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, StreamedText,
                         ::testing::Values("storyteller", "gpt2", "llama3", "qwen2",
                                           "deepseek-coder"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(IncrementalDecoder, AnUnknownIdTakesNothing) {
  const auto tokenizer = testing::SmallTokenizer({});
  IncrementalDecoder decoder(*tokenizer);
  EXPECT_FALSE(decoder.Append({'a', 999}).ok());
  EXPECT_EQ(decoder.Append({'b'}).value(), "b");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(IncrementalDecoder, KeepsTheSpecialTokensThatAreNamed) {
  const auto tokenizer = MakeFuzzTokenizer();
  const TokenId special = *tokenizer->FindToken("<s>");
  ASSERT_TRUE(tokenizer->IsSpecial(special));
  IncrementalDecoder none(*tokenizer, {.skip_special = true});
  EXPECT_EQ(none.Append({'a', special, 'b'}).value() + none.Finish(), "ab");
  IncrementalDecoder kept(*tokenizer, {.skip_special = true, .kept_special = {special}});
  EXPECT_EQ(kept.Append({'a', special, 'b'}).value() + kept.Finish(), "a<s>b");
}

TEST(IncrementalDecoder, WithoutADecoderTokensAreJoinedWithSpaces) {
  const auto tokenizer = testing::SmallTokenizer({.decoder = "null"});
  EXPECT_EQ(tokenizer->Decode({'a', ' ', 'b'}).value(), "a Ġ b");
  IncrementalDecoder decoder(*tokenizer);
  EXPECT_EQ(decoder.Append({'a'}).value(), "a");
  EXPECT_EQ(decoder.Append({'b'}).value(), " b");
}

TEST(IncrementalDecoder, FuseWaitsForNothingUnlessTheNextStepMust) {
  const std::string byte_level =
      R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true})";
  const auto fused = testing::SmallTokenizer({.decoder = R"({"type": "Sequence", "decoders": [)" +
                                                         byte_level + R"(, {"type": "Fuse"}]})"});
  IncrementalDecoder decoder(*fused);
  EXPECT_EQ(decoder.Append({'a'}).value(), "a");
  // One token of all: whether it is of the alphabet is known at the end only.
  const auto whole = testing::SmallTokenizer(
      {.decoder = R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, )" + byte_level + "]}"});
  IncrementalDecoder waiting(*whole);
  EXPECT_EQ(waiting.Append({'a', ' '}).value(), "");
  EXPECT_EQ(waiting.Finish(), "a ");
}

}  // namespace
}  // namespace sluice
