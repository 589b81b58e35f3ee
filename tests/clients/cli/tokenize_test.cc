// `sluice tokenize` and `sluice detokenize`, with a folder and with a service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/clients/cli/fake_pipeline.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

// Words "a", "b" and "é", a beginning and a special token.
constexpr char kTokenizer[] = R"({
    "added_tokens": [{"id": 3, "content": "<s>", "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false, "special": true}],
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": {"type": "BertProcessing", "cls": ["<s>", 3], "sep": ["<s>", 3]},
    "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "é": 2}}})";

// What a thread of the fake service got last, for the test's own thread.
template <class Request>
class Latest {
 public:
  void Set(const Request& request) {
    const absl::MutexLock lock(&mutex_);
    request_ = request;
  }
  Request Get() const {
    const absl::MutexLock lock(&mutex_);
    return request_;
  }

 private:
  mutable absl::Mutex mutex_;
  Request request_ ABSL_GUARDED_BY(mutex_);
};

class TokenizeTest : public ::testing::Test {
 protected:
  TokenizeTest() { folder_.Write("tokenizer.json", kTokenizer); }

  TempFolder folder_;
  FakeEnvironment fake_;
};

TEST_F(TokenizeTest, PrintsIdsALine) {
  fake_.in.str("\"a \\u00e9\"\n\"\"\n");
  EXPECT_EQ(fake_.Run({"tokenize", "--tokenizer", folder_.path()}), 0);
  EXPECT_EQ(fake_.out.str(), "[3,1,2,3]\n[3,3]\n");
}

TEST_F(TokenizeTest, LeavesSpecialTokensOutOrUnparsed) {
  fake_.in.str("\"a<s>\"\n");
  EXPECT_EQ(fake_.Run({"tokenize", "--tokenizer", folder_.path(), "--no_special"}), 0);
  EXPECT_EQ(fake_.out.str(), "[1,3]\n");
  FakeEnvironment untrusted;
  untrusted.in.str("\"a <s>\"\n");
  EXPECT_EQ(untrusted.Run(
                {"tokenize", "--tokenizer", folder_.path(), "--no_special", "--no_parse_special"}),
            0);
  EXPECT_EQ(untrusted.out.str(), "[1,0]\n");
}

TEST_F(TokenizeTest, PrintsOffsets) {
  fake_.in.str("\"é a\"\n");
  EXPECT_EQ(fake_.Run({"tokenize", "--tokenizer", folder_.path(), "--no_special", "--offsets"}), 0);
  EXPECT_EQ(fake_.out.str(), "[[2,0,2],[1,3,4]]\n");
}

TEST_F(TokenizeTest, NamesTheLineThatIsWrong) {
  fake_.in.str("\"a\"\n[1]\n");
  EXPECT_EQ(fake_.Run({"tokenize", "--tokenizer", folder_.path(), "--no_special"}), 1);
  EXPECT_EQ(fake_.out.str(), "[1]\n");
  EXPECT_THAT(fake_.err.str(), HasSubstr("line 2: is [1]; accepted: a JSON string"));

  FakeEnvironment broken;
  broken.in.str("words\n");
  EXPECT_EQ(broken.Run({"tokenize", "--tokenizer", folder_.path()}), 1);
  EXPECT_THAT(broken.err.str(), HasSubstr("line 1: not JSON: words; accepted:"));
}

TEST_F(TokenizeTest, DetokenizesWhatItPrinted) {
  fake_.in.str("[3,1,2]\n[]\n");
  EXPECT_EQ(fake_.Run({"detokenize", "--tokenizer", folder_.path()}), 0);
  EXPECT_EQ(fake_.out.str(), "\"<s> a é\"\n\"\"\n");
  FakeEnvironment skipping;
  skipping.in.str("[3,1,2]\n");
  EXPECT_EQ(skipping.Run({"detokenize", "--tokenizer", folder_.path(), "--skip_special"}), 0);
  EXPECT_EQ(skipping.out.str(), "\"a é\"\n");
}

TEST_F(TokenizeTest, RefusesIdsOfNoToken) {
  fake_.in.str("[1,9]\n");
  EXPECT_EQ(fake_.Run({"detokenize", "--tokenizer", folder_.path()}), 1);
  EXPECT_THAT(fake_.err.str(), HasSubstr("line 1: token id 9 at position 1"));
  FakeEnvironment other;
  other.in.str("[\"a\"]\n");
  EXPECT_EQ(other.Run({"detokenize", "--tokenizer", folder_.path()}), 1);
  EXPECT_THAT(other.err.str(), HasSubstr("accepted: a JSON array of token ids"));
}

TEST_F(TokenizeTest, NeedsOneSource) {
  EXPECT_EQ(fake_.Run({"tokenize"}), 2);
  EXPECT_THAT(fake_.err.str(), HasSubstr("exactly one of --tokenizer DIR and --endpoint"));
  FakeEnvironment nowhere;
  EXPECT_EQ(nowhere.Run({"tokenize", "--tokenizer", folder_.path() + "/none"}), 1);
  EXPECT_THAT(nowhere.err.str(), HasSubstr("looked for tokenizer.json"));
}

TEST_F(TokenizeTest, UsesAService) {
  FakeAnswers answers = DefaultAnswers();
  Latest<v1::TokenizeRequest> latest_tokenize;
  Latest<v1::DetokenizeRequest> latest_detokenize;
  answers.tokenize = [&](const v1::TokenizeRequest& request) {
    latest_tokenize.Set(request);
    v1::TokenizeResponse response;
    response.add_token_ids(7);
    response.add_begin_bytes(0);
    response.add_end_bytes(2);
    return response;
  };
  answers.detokenize = [&](const v1::DetokenizeRequest& request) {
    latest_detokenize.Set(request);
    v1::DetokenizeResponse response;
    response.set_text("words");
    return response;
  };
  FakePipeline pipeline(answers);
  fake_.in.str("\"é\"\n");
  EXPECT_EQ(fake_.Run({"tokenize", "--endpoint", pipeline.endpoint(), "--no_special", "--offsets"}),
            0);
  EXPECT_EQ(fake_.out.str(), "[[7,0,2]]\n");
  const v1::TokenizeRequest tokenized = latest_tokenize.Get();
  EXPECT_EQ(tokenized.text(), "é");
  EXPECT_FALSE(tokenized.add_special_tokens());
  EXPECT_FALSE(tokenized.has_parse_special_tokens());
  EXPECT_TRUE(tokenized.return_offsets());

  FakeEnvironment back;
  back.in.str("[7,8]\n");
  EXPECT_EQ(back.Run({"detokenize", "--endpoint", pipeline.endpoint(), "--skip_special"}), 0);
  EXPECT_EQ(back.out.str(), "\"words\"\n");
  const v1::DetokenizeRequest detokenized = latest_detokenize.Get();
  EXPECT_EQ(detokenized.token_ids_size(), 2);
  EXPECT_TRUE(detokenized.skip_special_tokens());
}

}  // namespace
}  // namespace sluice::testing
