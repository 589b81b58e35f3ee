// `sluice prefer` against two services that score as the test tells them, and its arithmetic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "clients/cli/json.h"
#include "clients/cli/preference.h"
#include "tests/clients/cli/fake_pipeline.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

// A token for each byte, each with the log-probability that `logprob_of` gives its byte.
FakeAnswers Scoring(std::function<float(int byte)> logprob_of) {
  FakeAnswers answers = DefaultAnswers();
  answers.tokenize = [](const v1::TokenizeRequest& request) {
    EXPECT_TRUE(request.return_offsets());
    v1::TokenizeResponse tokens;
    for (size_t i = 0; i < request.text().size(); ++i) {
      tokens.add_token_ids(static_cast<unsigned char>(request.text()[i]));
      tokens.add_begin_bytes(i);
      tokens.add_end_bytes(i + 1);
    }
    return tokens;
  };
  answers.score = [logprob_of](const v1::ScoreRequest& request) {
    v1::ScoreResponse response;
    for (const v1::ScoreInput& input : request.inputs()) {
      v1::ScoredText& score = *response.add_scores();
      *score.mutable_token_ids() = input.token_ids().token_ids();
      for (int i = 1; i < score.token_ids_size(); ++i) {
        score.add_logprobs()->set_logprob(logprob_of(score.token_ids(i)));
      }
    }
    return response;
  };
  return answers;
}

std::string FileOf(const std::string& name, const std::string& lines) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << lines;
  return path;
}

struct PreferTest : ::testing::Test {
  int Run(const std::string& pairs, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"prefer",      "--policy",           policy.endpoint(),
                                          "--reference", reference.endpoint(), "--pairs",
                                          pairs};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return fake.Run(arguments);
  }

  FakePipeline policy{Scoring([](int byte) { return byte == 'g' ? -0.5F : -2; })};
  FakePipeline reference{Scoring([](int) { return -1; })};
  FakeEnvironment fake;
};

// Sums over the answers: policy -1 and -4, reference -2 and -2.
TEST_F(PreferTest, PrintsAnObjectForEachPairAndTheTotals) {
  const std::string pairs =
      FileOf("pairs.jsonl", R"({"prompt": "ask", "chosen": "gg", "rejected": "bb"}

{"prompt": "ask", "chosen": "b", "rejected": "g", "more": 1}
)");
  ASSERT_EQ(Run(pairs, {"--beta", "0.5", "--json"}), 0) << fake.err.str();
  std::string line;
  ASSERT_TRUE(std::getline(fake.out, line));
  const Json first = Json::parse(line);
  EXPECT_EQ(first["policy"]["chosen"], -1);
  EXPECT_EQ(first["policy"]["rejected"], -4);
  EXPECT_EQ(first["reference"]["chosen"], -2);
  EXPECT_EQ(first["chosen_reward"], 0.5);
  EXPECT_EQ(first["rejected_reward"], -1);
  EXPECT_EQ(first["margin"], 1.5);
  EXPECT_DOUBLE_EQ(first["probability"].get<double>(), 1 / (1 + std::exp(-1.5)));
  EXPECT_DOUBLE_EQ(first["loss"].get<double>(), std::log(1 + std::exp(-1.5)));
  ASSERT_TRUE(std::getline(fake.out, line));
  EXPECT_EQ(Json::parse(line)["margin"], -0.75);
  ASSERT_TRUE(std::getline(fake.out, line));
  const Json totals = Json::parse(line);
  EXPECT_EQ(totals["pairs"], 2);
  EXPECT_EQ(totals["accuracy"], 0.5);
  EXPECT_EQ(totals["mean_margin"], 0.375);
  EXPECT_FALSE(std::getline(fake.out, line));
}

TEST_F(PreferTest, PrintsATable) {
  const std::string pairs =
      FileOf("pairs.jsonl", R"({"prompt": "ask", "chosen": "gg", "rejected": "bb"})");
  ASSERT_EQ(Run(pairs), 0);
  EXPECT_THAT(fake.out.str(), HasSubstr("1 pairs: accuracy 1.0000, mean margin 0.300000"));
}

TEST_F(PreferTest, SaysWhichLineIsWrong) {
  EXPECT_EQ(
      Run(FileOf("bad.jsonl", "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}\n[]\n")), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("bad.jsonl, line 2: no JSON object"));
  EXPECT_EQ(Run(FileOf("bad.jsonl", R"({"prompt":"a","chosen":"b"})")), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("line 1: no text \"rejected\""));
  EXPECT_EQ(Run(FileOf("bad.jsonl", R"({"prompt":"","chosen":"b","rejected":"c"})")), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("the prompt has no token of its own"));
  EXPECT_EQ(Run(FileOf("none.jsonl", "\n")), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("none.jsonl has no pairs"));
}

TEST_F(PreferTest, RefusesFlagsThatSayNothing) {
  EXPECT_EQ(fake.Run({"prefer", "--policy", "x"}), 2);
  EXPECT_THAT(fake.err.str(), HasSubstr("give --policy, --reference and --pairs"));
  EXPECT_EQ(Run("pairs.jsonl", {"--beta", "0"}), 2);
  EXPECT_THAT(fake.err.str(), HasSubstr("--beta is 0; accepted: a finite number, above 0"));
}

// By hand: rewards 0.1 and -0.05.
TEST(Preference, IsThatOfTheWorkedExample) {
  const Preference preference = PreferenceOf({-10, -12}, {-11, -11.5}, 0.1);
  EXPECT_NEAR(preference.margin, 0.15, 1e-12);
  EXPECT_NEAR(preference.probability, 0.53742984535, 1e-10);
  EXPECT_NEAR(preference.loss, 0.62095704779, 1e-10);
  // Far from the border nothing overflows.
  EXPECT_EQ(PreferenceOf({0, 10'000}, {0, 0}, 1).loss, 10'000);
  EXPECT_EQ(PreferenceOf({10'000, 0}, {0, 0}, 1).loss, 0);
}

}  // namespace
}  // namespace sluice::testing
