// Which of a folder's files is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "services/tokenizer/tokenizer.h"
#include "tests/services/model/model_folder.h"
#include "tests/services/tokenizer/test_tokenizers.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;

std::string ByteRanks() {
  std::string file;
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    absl::StrAppend(&file, absl::Base64Escape(absl::string_view(&text, 1)), " ", byte, "\n");
  }
  return file;
}

TEST(TokenizerLoad, SaysWhatItLookedFor) {
  const TempFolder folder;
  const auto tokenizer = Tokenizer::Load(folder.path());
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(tokenizer.status().message()),
              HasSubstr("looked for tokenizer.json, tokenizer.model, spiece.model"));
}

// Else the model would be served as one without a tokenizer.
TEST(TokenizerLoad, ALinkThatLeadsNowhereIsNoMissingFile) {
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    const TempFolder folder;
    std::filesystem::create_symlink("../blobs/4d", folder.PathOf(name));
    const absl::Status status = Tokenizer::Load(folder.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder.PathOf(name) + ": is a link to"));
  }
}

TEST(TokenizerLoad, PrefersTokenizerJson) {
  const TempFolder folder;
  folder.Write("tokenizer.model", "not even looked at");
  folder.Write("tokenizer.json", testing::SmallTokenizerJson({}));
  EXPECT_TRUE(Tokenizer::Load(folder.path()).ok());
}

TEST(TokenizerLoad, TakesATokenizerModelOfRanksForLlama3s) {
  const TempFolder folder;
  folder.Write("tokenizer.model", ByteRanks());
  const auto tokenizer = Tokenizer::Load(folder.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("a<|eot_id|>", {.parse_special = true})->ids,
              ElementsAre(128000, 'a', 128009));
}

TEST(TokenizerLoad, TakesAnotherTokenizerModelForSentencePieces) {
  const TempFolder folder;
  const std::string path = folder.Write("tokenizer.model", "\n\xFF");
  const auto tokenizer = Tokenizer::Load(folder.path());
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(tokenizer.status().message()),
              HasSubstr(path + ": is no protocol buffer; accepted: a SentencePiece model"));
}

TEST(TokenizerLoad, KnowsTiktokenFilesByNameOrByTheConfiguration) {
  const TempFolder folder;
  folder.Write("mine.tiktoken", ByteRanks());
  EXPECT_THAT(std::string(Tokenizer::Load(folder.path()).status().message()),
              HasSubstr("mine.tiktoken: nothing says how to split text; accepted: \"pat_str\""));
  folder.Write("tokenizer_config.json", R"({"pat_str": "a+|[^a]", "bos_token": "<b>",
      "add_bos_token": true, "added_tokens_decoder":
      {"300": {"content": "<b>", "special": true}, "301": {"content": "<x>", "special": false}}})");
  const auto configured = Tokenizer::Load(folder.path());
  ASSERT_TRUE(configured.ok()) << configured.status();
  EXPECT_THAT((*configured)->Encode("a<x>", {.parse_special = true})->ids,
              ElementsAre(300, 'a', 301));

  const TempFolder named;
  named.Write("o200k_base.tiktoken", ByteRanks());
  const auto preset = Tokenizer::Load(named.path());
  ASSERT_TRUE(preset.ok()) << preset.status();
  EXPECT_THAT((*preset)->Encode("<|endofprompt|>", {.parse_special = true})->ids,
              ElementsAre(200018));
}

}  // namespace
}  // namespace sluice
