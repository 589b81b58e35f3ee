// `sluice simulate` on small loads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "clients/cli/simulate_report.h"
#include "tests/clients/cli/fake_pipeline.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SimulateTest : public ::testing::Test {
 protected:
  SimulateTest() {
    folder_.Write("costs.json",
                  R"({"model": "toy", "machine": "a machine",
                      "costs": [{"kv_blocks": 500, "step_seconds": [[1, 0.01], [64, 0.02]],
                                 "max_step_tokens": 256}]})");
  }

  std::string Costs() const { return folder_.path() + "/costs.json"; }

  int Run(FakeEnvironment& fake, const std::vector<std::string>& flags) const {
    std::vector<std::string> arguments = {"simulate", "--costs", Costs()};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return fake.Run(arguments);
  }

  nlohmann::json Json(const std::vector<std::string>& flags) const {
    FakeEnvironment fake;
    std::vector<std::string> with_json = {"--json"};
    with_json.insert(with_json.end(), flags.begin(), flags.end());
    EXPECT_EQ(Run(fake, with_json), 0) << fake.err.str();
    return nlohmann::json::parse(fake.out.str(), nullptr, /*allow_exceptions=*/false);
  }

  const TempFolder folder_;
};

TEST_F(SimulateTest, PrintsFiguresInEightyColumns) {
  FakeEnvironment fake;
  ASSERT_EQ(Run(fake, {"--arrivals", "poisson:20", "--requests", "300", "--replicas", "2", "--slo",
                       "ttft=1s,tpot=50ms"}),
            0)
      << fake.err.str();
  const std::string text = fake.out.str();
  EXPECT_THAT(text, AllOf(HasSubstr("300 requests of 128 prompt and 64 new tokens in the mean"),
                          HasSubstr("2 replicas of toy, each --tp 1 --pp 1, 500 blocks of 16"),
                          HasSubstr("measured on         a machine\n"), HasSubstr("\nfirst token "),
                          HasSubstr("\nbetween tokens "), HasSubstr("300 of 300 requests finished"),
                          HasSubstr("keep ttft 1s, tpot 50ms"), HasSubstr("by replica")));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(SimulateTest, FindsTheFewestReplicas) {
  const std::vector<std::string> load = {"--arrivals", "steady:30", "--requests", "600"};
  const auto with = [&load](std::vector<std::string> flags) {
    flags.insert(flags.begin(), load.begin(), load.end());
    return flags;
  };
  const nlohmann::json found = Json(with({"--slo", "ttft=300ms", "--find", "replicas"}));
  EXPECT_EQ(found["found"], true);
  const int fewest = found["replicas"];
  EXPECT_GT(fewest, 1);
  EXPECT_GE(found["kept_share"], 0.99);
  const nlohmann::json one_less =
      Json(with({"--slo", "ttft=300ms", "--replicas", std::to_string(fewest - 1)}));
  EXPECT_LT(one_less["kept_share"], 0.99);
  FakeEnvironment fake;
  EXPECT_EQ(Run(fake, with({"--slo", "ttft=300ms", "--find", "replicas", "--replicas",
                            std::to_string(fewest - 1)})),
            1);
  EXPECT_THAT(fake.out.str(), HasSubstr("Not even " + std::to_string(fewest - 1) + " replica"));
}

TEST_F(SimulateTest, FindsTheArrangementWithTheFewestShardsAndTheBestSizeOfSteps) {
  folder_.Write("costs.json", R"({"costs": [
      {"tp": 1, "kv_blocks": 500, "step_seconds": [[1, 0.02]]},
      {"tp": 2, "kv_blocks": 500, "step_seconds": [[1, 0.005]]},
      {"tp": 8, "kv_blocks": 500, "step_seconds": [[1, 0.004]]}]})");
  const nlohmann::json arrangement = Json({"--arrivals", "steady:30", "--requests", "300", "--slo",
                                           "ttft=300ms,tpot=6ms", "--find", "arrangement"});
  EXPECT_EQ(arrangement["find"], "arrangement");
  EXPECT_EQ(arrangement["found"], true);
  EXPECT_EQ(arrangement["tp"], 2);  // no number of slow replicas keeps the time between tokens
  EXPECT_EQ(arrangement["replicas"], 1);
  folder_.Write("costs.json", R"({"costs": [
      {"kv_blocks": 500, "step_seconds": [[1, 0.01], [64, 0.012], [1024, 0.5]]}]})");
  const nlohmann::json sizes =
      Json({"--arrivals", "poisson:5", "--requests", "100", "--prompt_tokens", "400", "--slo",
            "tpot=13ms", "--find", "max_step_tokens"});
  EXPECT_EQ(sizes["max_step_tokens"], 64);
  EXPECT_EQ(sizes["tried"].size(), 8u);
  EXPECT_EQ(sizes["kept_share"], sizes["tried"][0]["kept_share"]);
}

TEST_F(SimulateTest, PlaysATraceAndTakesRoomFromAModel) {
  folder_.Write("trace.jsonl",
                "{\"timestamp\": 0, \"input_length\": 40, \"output_length\": 5}\n"
                "{\"timestamp\": 500, \"input_length\": 90, \"output_length\": 9}\n");
  folder_.Write("config.json", TinyLlamaConfig());
  const nlohmann::json figures = Json({"--trace", folder_.path() + "/trace.jsonl", "--model",
                                       folder_.path(), "--kv_cache_mib", "1"});
  EXPECT_EQ(figures["requests"], 2);
  EXPECT_EQ(figures["kv_blocks"], (1 << 20) / (16 * 192));
  EXPECT_EQ(figures["max_step_tokens"], 256);  // of the costs
  EXPECT_EQ(figures["arrival_seconds"], 0.5);
}

TEST_F(SimulateTest, MovesRequestsOfLostReplicasAndDrawsAPicture) {
  FakeEnvironment fake;
  const std::string picture = folder_.path() + "/a.svg";
  ASSERT_EQ(Run(fake, {"--arrivals", "steady:20", "--requests", "200", "--replicas", "3",
                       "--routing", "prefix", "--faults", "1@2s", "--start_time", "3", "--slo",
                       "ttft=1s,tpot=20ms", "--svg", picture}),
            0)
      << fake.err.str();
  EXPECT_THAT(fake.out.str(), AllOf(HasSubstr("by the longest known prefix"),
                                    HasSubstr("200 of 200 requests finished"),
                                    HasSubstr("1 replica lost, "), HasSubstr("requests moved")));
  std::ifstream in(picture);
  const std::string svg((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_THAT(
      svg, AllOf(HasSubstr("<svg xmlns"), HasSubstr("First token, by arrival"),
                 HasSubstr("ttft 1 s"), HasSubstr("Time between tokens"), HasSubstr("</svg>\n")));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST_F(SimulateTest, RefusesByNameWhatItCannotSimulate) {
  folder_.Write("trace.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,a,4\n");
  const struct {
    std::vector<std::string> flags;
    std::string message;
    int exit;
  } cases[] = {
      {{}, "give --trace FILE or --arrivals LAW", 2},
      {{"--arrivals", "poisson:1", "--trace", "x"}, "were both given; choose one", 2},
      {{"--arrivals", "often"}, "--arrivals: \"often\" is no law of arrivals; accepted: ", 2},
      {{"--arrivals", "poisson:1", "--find", "replicas"}, "--find replicas needs --slo", 2},
      {{"--arrivals", "poisson:1", "--find", "gold"}, "accepted: replicas, arrangement, max", 2},
      {{"--arrivals", "poisson:1", "--kv_cache_mib", "5"}, "--kv_cache_mib needs --model", 2},
      {{"--arrivals", "poisson:1", "--routing", "luck"}, "accepted: turns, prefix", 2},
      {{"--arrivals", "poisson:1", "--faults", "soon"}, "\"soon\" is no loss; accepted: ", 2},
      {{"--arrivals", "poisson:1", "--faults", "1@5s"}, "no replica 1; accepted: 0 to 0", 2},
      {{"--arrivals", "poisson:1", "--svg", "/nowhere/a"}, "/nowhere/a cannot be written", 1},
      {{"--arrivals", "poisson:1", "--slo_share", "1.5"}, "1.5 is not a number above 0", 2},
      {{"--arrivals", "poisson:1", "--tp", "2"}, "there are no costs of --tp 2 --pp 1", 1},
      {{"--arrivals", "poisson:1", "--costs", "/nowhere"}, "/nowhere", 1},
      {{"--trace", folder_.path() + "/trace.csv"}, "trace.csv:2: ContextTokens is \"a\"", 1},
  };
  for (const auto& [flags, message, exit] : cases) {
    FakeEnvironment fake;
    EXPECT_EQ(Run(fake, flags), exit) << message;
    EXPECT_THAT(fake.err.str(), HasSubstr(message));
    if (exit == 2) {
      EXPECT_THAT(fake.out.str(), IsEmpty());
    }
  }
}

TEST(TimeTextTest, HasThreeDigitsAndAUnit) {
  EXPECT_EQ(TimeText(0), "0 us");
  EXPECT_EQ(TimeText(0.00085), "850 us");
  EXPECT_EQ(TimeText(0.0123), "12.30 ms");
  EXPECT_EQ(TimeText(0.85), "850 ms");
  EXPECT_EQ(TimeText(1.25), "1.25 s");
  EXPECT_EQ(TimeText(125), "2m 5s");
  EXPECT_EQ(TimeText(7300), "2h 1m");
}

}  // namespace
}  // namespace sluice::testing
