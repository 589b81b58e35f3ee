// What a malformed or unsupported tokenizer.json gets: the file, the path within it, the value, and
// what would be accepted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "services/tokenizer/tokenizer.h"
#include "tests/services/tokenizer/test_tokenizers.h"

namespace sluice {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

absl::Status LoadStatus(const std::string& text) {
  return Tokenizer::FromJson(text, "t.json").status();
}

// The small tokenizer with the value at a JSON pointer replaced.
absl::Status LoadStatusWith(const std::string& pointer, const std::string& value) {
  json file = json::parse(testing::SmallTokenizerJson({.merges = {{"a", "b"}}}));
  file[json::json_pointer(pointer)] = json::parse(value);
  return LoadStatus(file.dump());
}

TEST(LoadErrors, TheSmallTokenizerItselfLoads) {
  EXPECT_TRUE(LoadStatusWith("/version", "\"1.0\"").ok());
}

TEST(LoadErrors, NamePathAndValue) {
  struct Case {
    std::string pointer, value, message;
    absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  };
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  const std::string token =
      R"({"id": 300, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
          "normalized": false, "special": true})";
  const std::string other =
      R"({"id": 300, "content": "<t>", "single_word": false, "lstrip": false, "rstrip": false,
          "normalized": false, "special": true})";
  const Case kCases[] = {
      {"/version", "\"2.0\"", "t.json: version is \"2.0\"; accepted: \"1.0\""},
      {"/model", "null", "t.json: model is null; accepted: an object"},
      {"/model/type", "\"Markov\"", "t.json: model.type is \"Markov\"; accepted: BPE, Unigram",
       kUnimplemented},
      {"/model/vocab", "[]", "t.json: model.vocab is a list; accepted: an object of tokens"},
      {"/model/vocab", "3", "t.json: model.vocab is 3; accepted: an object of tokens"},
      {"/model/vocab", "{}", "t.json: model.vocab is empty"},
      {"/model/vocab/a", "-1", "t.json: model.vocab[\"a\"] is -1; accepted: an integer from 0"},
      {"/model/vocab/a", "1.5", "t.json: model.vocab[\"a\"] is 1.5; accepted: an integer from 0"},
      {"/model/vocab/a", "{}", "t.json: model.vocab[\"a\"] is {}; accepted: an integer from 0"},
      {"/model/vocab/a", "5000000000", "t.json: model.vocab[\"a\"] is 5000000000; accepted: "},
      {"/model/vocab/a", "98", "which is the id of \""},
      {"/model/merges", "null", "t.json: model.merges is null; accepted: a list of merges"},
      {"/model/merges/0", "\"ab\"", "t.json: model.merges[0] is \"ab\"; accepted: "},
      {"/model/merges/0", "\"a b c\"", "t.json: model.merges[0] is \"a b c\"; accepted: "},
      {"/model/merges/0", "[\"a\"]", "t.json: model.merges[0] is a list of 1; accepted: "},
      {"/model/merges/0", "[\"a\", 1]", "t.json: model.merges[0] holds 1; accepted: "},
      {"/model/merges/0", "[\"a\", \"zz\"]", "t.json: model.merges[0] has the piece \"zz\""},
      {"/model/merges/0", "[\"b\", \"a\"]", "t.json: model.merges[0] has the piece \"ba\""},
      {"/model/dropout", "0.1", "t.json: model.dropout is 0.1; accepted: null or 0",
       kUnimplemented},
      {"/model/end_of_word_suffix", "3", "t.json: model.end_of_word_suffix is 3"},
      {"/model/byte_fallback", "1", "t.json: model.byte_fallback is 1; accepted: true or false"},
      {"/added_tokens", "{}", "t.json: added_tokens is {}; accepted: an array"},
      {"/added_tokens", "[3]", "t.json: added_tokens[0] holds 3; accepted: a JSON object"},
      {"/added_tokens", "[{}]", "t.json: added_tokens[0].id is missing; accepted: an integer"},
      {"/added_tokens", "[" + token + "," + other + "]",
       "t.json: added_tokens[1].id is 300; accepted: an id of its own, not that of \"<s>\""},
      {"/normalizer", R"({"type": "Uppercase"})", "t.json: normalizer.type is \"Uppercase\"",
       kUnimplemented},
      {"/normalizer", R"({"type": "Sequence", "normalizers": 1})",
       "t.json: normalizer.normalizers is 1; accepted: an array"},
      {"/pre_tokenizer", R"({"type": "Blank"})", "t.json: pre_tokenizer.type is", kUnimplemented},
      {"/post_processor", R"({"type": "Bert"})", "t.json: post_processor.type is", kUnimplemented},
      {"/post_processor", R"({"type": "BertProcessing", "cls": ["a", 0], "sep": 3})",
       "t.json: post_processor.sep is 3; accepted: a token and its id"},
      {"/post_processor",
       R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "X", "type_id": 0}}],
           "pair": [], "special_tokens": {}})",
       "t.json: post_processor.single[0].SpecialToken.id is \"X\"; accepted: a name that"},
      {"/decoder", R"({"type": "Words"})", "t.json: decoder.type is \"Words\"", kUnimplemented},
      {"/decoder", "[]", "t.json: decoder is []; accepted: an object with a type"},
  };
  for (const Case& c : kCases) {
    const absl::Status status = LoadStatusWith(c.pointer, c.value);
    EXPECT_EQ(status.code(), c.code) << c.pointer << " " << c.value << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.pointer << " " << c.value;
  }
}

TEST(LoadErrors, OfFilesThatAreNotJson) {
  EXPECT_THAT(std::string(LoadStatus("").message()), HasSubstr("t.json: is not JSON at byte 0"));
  EXPECT_THAT(std::string(LoadStatus("{\"a\": }").message()), HasSubstr("not JSON at byte 6"));
  EXPECT_THAT(std::string(LoadStatus("[]").message()), HasSubstr("t.json: holds []; accepted: "));
  EXPECT_THAT(std::string(LoadStatus("{\"a\": 1, \"a\": 2}").message()),
              HasSubstr("the key \"a\" is there twice"));
  EXPECT_THAT(
      std::string(LoadStatus(R"({"model": {"vocab": {"a": 0, "a": 1}, "merges": []}})").message()),
      HasSubstr("model.vocab[\"a\"] is there twice"));
  EXPECT_THAT(std::string(LoadStatus(std::string(100'000, '[')).message()),
              HasSubstr("nested deeper than 64"));
  EXPECT_FALSE(LoadStatus("\"\xFF\"").ok());
}

TEST(LoadErrors, OfMissingFiles) {
  EXPECT_EQ(Tokenizer::Load("/nowhere").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace sluice
