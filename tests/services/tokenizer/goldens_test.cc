// Real tokenizers against the ids and texts of Hugging Face's own implementation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/services/tokenizer/test_tokenizers.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::ValuesIn;

class Goldens : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string name = "tokenizers/" + GetParam();
    SLUICE_SKIP_WITHOUT(name);
    folder_ = *testing::TestData(name);
    tokenizer_ = testing::LoadOrFail(folder_);
    ASSERT_NE(tokenizer_, nullptr);
    hard_ = testing::ReadJsonStrings(*testing::TestData("text/hard.jsonl"));
    ASSERT_GE(hard_.size(), 400);
  }

  std::vector<std::vector<TokenId>> Ids(const std::string& name) const {
    return testing::ReadJsonIds(folder_ + "/goldens/" + name);
  }

  // Expects each text's ids to be the golden's of the same line.
  void ExpectIds(const std::vector<std::string>& texts, const std::string& golden,
                 const EncodeOptions& options) const {
    const std::vector<std::vector<TokenId>> ids = Ids(golden);
    ASSERT_EQ(ids.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto encoding = tokenizer_->Encode(texts[i], options);
      ASSERT_TRUE(encoding.ok()) << encoding.status();
      EXPECT_EQ(encoding->ids, ids[i]) << golden << " line " << i << ": " << texts[i];
    }
  }

  std::string folder_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> hard_;
};

TEST_P(Goldens, EncodesHardTexts) { ExpectIds(hard_, "hard.ids.jsonl", {.add_special = false}); }

TEST_P(Goldens, EncodesHardTextsWithOffsetsAlike) {
  ExpectIds(hard_, "hard.ids.jsonl", {.add_special = false, .offsets = true});
}

TEST_P(Goldens, AddsSpecialTokens) { ExpectIds(hard_, "hard.special.jsonl", {}); }

TEST_P(Goldens, EncodesProse) {
  const auto prose = testing::ReadJsonStrings(*testing::TestData("text/prose.jsonl"));
  ASSERT_GE(prose.size(), 500);
  ExpectIds(prose, "prose.ids.jsonl", {.add_special = false});
}

TEST_P(Goldens, DecodesHardTexts) {
  const std::vector<std::string> texts =
      testing::ReadJsonStrings(folder_ + "/goldens/hard.decode.jsonl");
  const std::vector<std::vector<TokenId>> ids = Ids("hard.ids.jsonl");
  ASSERT_EQ(texts.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto text = tokenizer_->Decode(ids[i]);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, texts[i]) << "line " << i;
  }
}

TEST_P(Goldens, OffsetsCoverTheText) {
  for (const std::string& text : hard_) {
    const auto encoding = tokenizer_->Encode(text, {.add_special = false, .offsets = true});
    ASSERT_TRUE(encoding.ok()) << encoding.status();
    ASSERT_EQ(encoding->offsets.size(), encoding->ids.size());
    uint32_t end = 0;
    for (const ByteRange& range : encoding->offsets) {
      EXPECT_LE(range.begin, end) << text;
      EXPECT_LT(range.begin, range.end) << text;
      end = std::max(end, range.end);
    }
    EXPECT_EQ(end, text.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Goldens,
                         ValuesIn(std::vector<std::string>{"gpt2", "llama3", "qwen2",
                                                           "deepseek-coder"}),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class Unsupported : public ::testing::TestWithParam<std::string> {};

TEST_P(Unsupported, SaysWhichComponentIsMissing) {
  const std::string name = "tokenizers/" + GetParam();
  SLUICE_SKIP_WITHOUT(name);
  const auto tokenizer = Tokenizer::Load(*testing::TestData(name));
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(tokenizer.status().message()),
              HasSubstr("tokenizer.json: normalizer.normalizers[0].type is \"Prepend\"; accepted: "
                        "NFC, NFD, NFKC, NFKD, Sequence"));
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Unsupported,
                         ValuesIn(std::vector<std::string>{"llama2", "phi-3-mini", "stories260K",
                                                           "tinystories-656k"}),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase_if(name, [](char c) { return !std::isalnum(c); });
                           return name;
                         });

// Found in the wild: its no-break spaces have become spaces, so that some merges no longer have two
// pieces.
TEST(DamagedTokenizer, IsRefusedAtTheFirstDamagedMerge) {
  SLUICE_SKIP_WITHOUT("tokenizers/_broken/llama2-nbsp-corrupt");
  const auto tokenizer =
      Tokenizer::Load(*testing::TestData("tokenizers/_broken/llama2-nbsp-corrupt"));
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(tokenizer.status().message()),
              HasSubstr("tokenizer.json: model.merges[18917] is "));
}

}  // namespace
}  // namespace sluice
