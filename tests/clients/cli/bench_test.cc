// The load generator, its figures and `sluice bench`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "clients/cli/bench_phases.h"
#include "clients/cli/bench_report.h"
#include "clients/cli/json.h"
#include "clients/cli/load_generator.h"
#include "clients/cli/progress_line.h"
#include "services/model/shown_bar.h"
#include "tests/clients/cli/fake_pipeline.h"

namespace sluice::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Lt;

TEST(BenchFiguresTest, TakesPercentilesByNearestRank) {
  std::vector<double> values;
  for (int i = 200; i >= 1; --i) values.push_back(i);
  const Percentiles many = PercentilesOf(values);
  EXPECT_EQ(many.p50, 100);
  EXPECT_EQ(many.p90, 180);
  EXPECT_EQ(many.p99, 198);
  const Percentiles one = PercentilesOf({7});
  EXPECT_EQ(one.p50, 7);
  EXPECT_EQ(one.p99, 7);
}

// Two requests that overlap, with a pause before the third:
//   0: waits 0-1, writes 1-3     1: waits 0.5-2, writes 2-5     2: waits 10-11, one arrival
TEST(BenchFiguresTest, DividesTokensByTheTimeInWhichTheyWereMade) {
  const LoadTrace trace{
      .options = {.prompt_tokens = 10, .max_tokens = 3, .concurrency = 2, .requests = 3},
      .wall_seconds = 11,
      .requests = {{.start = 0, .end = 3, .arrivals = {{1, 1}, {2, 1}, {3, 1}}},
                   {.start = 0.5, .end = 5.5, .arrivals = {{2, 1}, {5, 2}}},
                   {.start = 10, .end = 11, .arrivals = {{11, 3}}}}};
  const BenchFigures figures = FiguresOf(trace);
  EXPECT_EQ(figures.num_requests, 3);
  EXPECT_EQ(figures.prompt_tokens, 30);
  EXPECT_EQ(figures.generated_tokens, 9);
  // Someone waits during [0, 2) and [10, 11); someone writes during [1, 5).
  EXPECT_THAT(figures.prefill_tokens_per_second, DoubleNear(30.0 / 3, 1e-9));
  EXPECT_THAT(figures.decode_tokens_per_second, DoubleNear(4.0 / 4, 1e-9));
  EXPECT_EQ(figures.first_token_seconds.p50, 1);
  EXPECT_EQ(figures.first_token_seconds.p99, 1.5);
  // Gaps 1, 1 and, for two tokens together, 1.5 and 1.5.
  EXPECT_EQ(figures.between_tokens_seconds.p50, 1);
  EXPECT_EQ(figures.between_tokens_seconds.p90, 1.5);
  EXPECT_EQ(figures.request_seconds.p90, 5);
}

TEST(BenchFiguresTest, CopesWithASingleTokenPerRequest) {
  const LoadTrace trace{.options = {.prompt_tokens = 1, .max_tokens = 1, .requests = 1},
                        .wall_seconds = 1,
                        .requests = {{.start = 0, .end = 1, .arrivals = {{1, 1}}}}};
  const BenchFigures figures = FiguresOf(trace);
  EXPECT_EQ(figures.between_tokens_seconds.p99, 0);
  EXPECT_EQ(figures.decode_tokens_per_second, 0);
}

TEST(LoadGeneratorTest, DrawsPromptsFromSeedAndNumberAlone) {
  const LoadOptions options{.prompt_tokens = 500, .vocabulary_size = 100, .seed = 1};
  const std::vector<int32_t> prompt = RandomPrompt(options, 0);
  ASSERT_EQ(prompt.size(), 500u);
  EXPECT_THAT(prompt, Each(Lt(100)));
  EXPECT_GE(*std::min_element(prompt.begin(), prompt.end()), 0);
  EXPECT_GT(std::set<int32_t>(prompt.begin(), prompt.end()).size(), 80u);
  EXPECT_EQ(RandomPrompt(options, 0), prompt);
  EXPECT_NE(RandomPrompt(options, 1), prompt);
  LoadOptions other = options;
  other.seed = uint64_t{1} << 32 | 1;
  EXPECT_NE(RandomPrompt(other, 0), prompt);
}

// Writes max_tokens tokens and counts calls in progress.
class Writer {
 public:
  FakeAnswers Answers() {
    FakeAnswers answers = DefaultAnswers();
    answers.generate = [this](const v1::GenerateRequest& request, const WriteEvent& write) {
      Enter();
      for (int i = 0; i < request.max_tokens(); ++i) write(TextEvent(0, "x", {1}));
      write(FinishedEvent(1, request.max_tokens()));
      Leave();
      return absl::OkStatus();
    };
    return answers;
  }
  // Makes every call wait until so many are in progress.
  explicit Writer(int gather) : gather_(gather) {}
  int most() const {
    const absl::MutexLock lock(&mutex_);
    return most_;
  }

 private:
  void Enter() {
    const absl::MutexLock lock(&mutex_);
    most_ = std::max(most_, ++in_progress_);
    const auto gathered = [this]()
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return most_ >= gather_; };
    mutex_.Await(absl::Condition(&gathered));
  }
  void Leave() {
    const absl::MutexLock lock(&mutex_);
    --in_progress_;
  }

  const int gather_;
  mutable absl::Mutex mutex_;
  int in_progress_ ABSL_GUARDED_BY(mutex_) = 0;
  int most_ ABSL_GUARDED_BY(mutex_) = 0;
};

std::vector<std::string> BenchArguments(const FakePipeline& pipeline) {
  return {"bench",
          "--endpoint",
          pipeline.endpoint(),
          "--prompt_tokens",
          "16",
          "--max_tokens",
          "5",
          "--concurrency",
          "3",
          "--requests",
          "10"};
}

TEST(BenchTest, CtrlCPrintsTheFiguresOfWhatHasEnded) {
  FakeEnvironment fake;
  std::atomic<int> begun = 0;
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [&](const v1::GenerateRequest& request, const WriteEvent& write) {
    if (++begun > 4) {
      EXPECT_TRUE(fake.interrupt.Request(130));
      while (write(TextEvent(0, "", {}))) {
      }
      return absl::CancelledError();
    }
    for (int i = 0; i < request.max_tokens(); ++i) write(TextEvent(0, "x", {1}));
    write(FinishedEvent(1, request.max_tokens()));
    return absl::OkStatus();
  };
  FakePipeline pipeline(answers);
  EXPECT_EQ(fake.Run({"bench", "--endpoint", pipeline.endpoint(), "--prompt_tokens", "16",
                      "--max_tokens", "5", "--concurrency", "1", "--requests", "10"}),
            130);
  EXPECT_THAT(fake.err.str(),
              HasSubstr("interrupted; the figures are those of the 4 of 10 requests"));
  EXPECT_THAT(fake.out.str(), HasSubstr("\n4 requests, 1 at a time"));
  EXPECT_THAT(fake.out.str(), HasSubstr("20 generated tokens"));
}

TEST(BenchTest, KeepsAsManyRequestsInProgressAsAsked) {
  Writer writer(/*gather=*/3);
  FakePipeline pipeline(writer.Answers());
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run(BenchArguments(pipeline)), 0);
  EXPECT_EQ(writer.most(), 3);
  const std::vector<v1::GenerateRequest> requests = pipeline.requests();
  ASSERT_EQ(requests.size(), 10u);
  for (const v1::GenerateRequest& request : requests) {
    EXPECT_EQ(request.token_ids().token_ids_size(), 16);
    EXPECT_EQ(request.max_tokens(), 5);
    EXPECT_TRUE(request.stop().ignore_eos());
    EXPECT_EQ(request.sampling().temperature(), 0);
  }
}

TEST(BenchTest, SendsRequestsAtTheTimesOfALaw) {
  Writer writer(/*gather=*/0);
  FakePipeline pipeline(writer.Answers());
  FakeEnvironment fake;
  const absl::Time begin = absl::Now();
  EXPECT_EQ(fake.Run({"bench", "--endpoint", pipeline.endpoint(), "--requests", "6", "--arrivals",
                      "steady:50", "--max_tokens", "2", "--json"}),
            0)
      << fake.err.str();
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(100));  // the last one is sent then
  EXPECT_EQ(pipeline.requests().size(), 6u);
  EXPECT_THAT(fake.out.str(), HasSubstr("\"concurrency\":6"));
  EXPECT_THAT(fake.out.str(), HasSubstr("\"p95\":"));
  FakeEnvironment wrong;
  EXPECT_EQ(wrong.Run({"bench", "--arrivals", "poisson"}), 2);
  EXPECT_THAT(wrong.err.str(), HasSubstr("--arrivals: \"poisson\" is no law of arrivals"));
}

// A second run that found the prompts of the first would measure the prefix cache.
TEST(BenchTest, SendsOtherPromptsInEachRunUnlessASeedIsGivenAndShowsHits) {
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [](const v1::GenerateRequest& request, const WriteEvent& write) {
    for (int i = 0; i < request.max_tokens(); ++i) write(TextEvent(0, "x", {1}));
    v1::GenerateResponse finished = FinishedEvent(1, request.max_tokens());
    finished.mutable_finished()->mutable_usage()->set_num_cached_prompt_tokens(7);
    write(finished);
    return absl::OkStatus();
  };
  FakePipeline pipeline(answers);
  const auto new_prompts_of = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = BenchArguments(pipeline);
    arguments.insert(arguments.end(), more.begin(), more.end());
    const size_t before = pipeline.requests().size();  // all different so far
    FakeEnvironment fake;
    EXPECT_EQ(fake.Run(arguments), 0);
    EXPECT_THAT(fake.out.str(), HasSubstr("prefix cache hits              70 of 160 prompt tokens, "
                                          "which count as prefilled above"));
    std::set<std::string> prompts;
    for (const v1::GenerateRequest& request : pipeline.requests()) {
      prompts.insert(request.token_ids().SerializeAsString());
    }
    return prompts.size() - before;
  };
  EXPECT_EQ(new_prompts_of({}), 10u);
  EXPECT_EQ(new_prompts_of({}), 10u);
  EXPECT_EQ(new_prompts_of({"--seed", "5"}), 10u);
  EXPECT_EQ(new_prompts_of({"--seed", "5"}), 0u) << "the same ones again";
}

TEST(BenchTest, SendsTheSamplingThatFlagsSay) {
  Writer writer(/*gather=*/1);
  FakePipeline pipeline(writer.Answers());
  FakeEnvironment fake;
  std::vector<std::string> arguments = BenchArguments(pipeline);
  for (const char* argument : {"--temperature", "0.5", "--min_p", "0.125", "--seed", "3"}) {
    arguments.emplace_back(argument);
  }
  EXPECT_EQ(fake.Run(arguments), 0);
  EXPECT_EQ(pipeline.requests().at(0).sampling().temperature(), 0.5F);
  EXPECT_EQ(pipeline.requests().at(0).sampling().min_p(), 0.125F);
  EXPECT_EQ(pipeline.requests().at(0).sampling().seed(), 3u);
}

TEST(BenchTest, PrintsItsTableAndProgress) {
  Writer writer(1);
  FakePipeline pipeline(writer.Answers());
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run(BenchArguments(pipeline)), 0);
  const std::string out = fake.out.str();
  EXPECT_THAT(out, HasSubstr("fake (f32) on " + pipeline.endpoint() + ", called from "));
  EXPECT_THAT(out, HasSubstr("10 requests, 3 at a time, of 16 prompt tokens and 5 tokens"));
  EXPECT_THAT(out, HasSubstr("\nfirst token "));
  EXPECT_THAT(out, HasSubstr("s for 160 prompt and 50 generated tokens\n"));
  EXPECT_THAT(out, HasSubstr("decode tokens/s: tokens after"));
  EXPECT_THAT(fake.err.str(), HasSubstr("10 of 10 requests, 50 tokens\n"));
}

TEST(BenchTest, PrintsOneJsonObject) {
  Writer writer(1);
  FakePipeline pipeline(writer.Answers());
  FakeEnvironment fake;
  std::vector<std::string> arguments = BenchArguments(pipeline);
  arguments.push_back("--json");
  EXPECT_EQ(fake.Run(arguments), 0);
  const Json figures = Json::parse(fake.out.str());
  EXPECT_EQ(figures["generated_tokens"], 50);
  EXPECT_GT(figures["first_token_ms"]["p50"], 0.0);
  EXPECT_GT(figures["prefill_tokens_per_second"], 0.0);
}

TEST(BenchTest, FailsWithTheFirstFailure) {
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [](const v1::GenerateRequest&, const WriteEvent&) {
    return absl::ResourceExhaustedError("too many requests wait");
  };
  FakePipeline pipeline(answers);
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run(BenchArguments(pipeline)), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("sluice: too many requests wait [RESOURCE_EXHAUSTED]\n"));
  EXPECT_LE(pipeline.requests().size(), 3u);
}

TEST(BenchPhasesTest, ReadsPhases) {
  const auto phases = ParsePhases("prefill:512,decode:16");
  ASSERT_TRUE(phases.ok()) << phases.status();
  ASSERT_EQ(phases->size(), 2u);
  EXPECT_EQ((*phases)[0].kind, Phase::Kind::kPrefill);
  EXPECT_EQ((*phases)[0].count, 512);
  EXPECT_EQ((*phases)[1].kind, Phase::Kind::kDecode);
  EXPECT_EQ((*phases)[1].count, 16);
  for (const char* text : {"", "prefill", "prefill:", "prefill:0", "decode:4097", "decode:1,",
                           "decode:1:2", "encode:1"}) {
    EXPECT_EQ(ParsePhases(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

// Two streams: 0 writes during [1, 4], 1 during [2, 5]. Both write during (2, 4].
TEST(BenchPhasesTest, CountsDecodeWhileAllStreamsWrite) {
  const LoadTrace trace{
      .options = {.prompt_tokens = 16, .max_tokens = 4, .concurrency = 2, .requests = 2},
      .wall_seconds = 5,
      .requests = {{.start = 0, .end = 4, .arrivals = {{1, 1}, {2, 1}, {3, 1}, {4, 1}}},
                   {.start = 0, .end = 5, .arrivals = {{2, 1}, {3.5, 2}, {5, 1}}}}};
  const auto rate = RateOf({Phase::Kind::kDecode, 2}, trace);
  ASSERT_TRUE(rate.ok()) << rate.status();
  EXPECT_THAT(*rate, DoubleNear((1 + 1 + 2) / 2.0, 1e-9));
}

TEST(BenchPhasesTest, SaysWhenStreamsDidNotOverlap) {
  const LoadTrace trace{.options = {.max_tokens = 2},
                        .wall_seconds = 4,
                        .requests = {{.start = 0, .end = 2, .arrivals = {{1, 1}, {2, 1}}},
                                     {.start = 0, .end = 4, .arrivals = {{3, 1}, {4, 1}}}}};
  const auto rate = RateOf({Phase::Kind::kDecode, 2}, trace);
  EXPECT_EQ(rate.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(rate.status().message()), HasSubstr("more than 2 tokens"));
}

TEST(BenchPhasesTest, CountsPrefillUntilTheFirstToken) {
  const LoadTrace trace{.options = {.prompt_tokens = 100, .max_tokens = 1},
                        .wall_seconds = 5,
                        .requests = {{.start = 1, .end = 5, .arrivals = {{3, 1}}}}};
  EXPECT_THAT(*RateOf({Phase::Kind::kPrefill, 100}, trace), DoubleNear(50, 1e-9));
}

// Where so many threads wait for each other, again and again.
class Lockstep {
 public:
  explicit Lockstep(int size) : size_(size) {}
  void Meet() {
    const absl::MutexLock lock(&mutex_);
    const int goal = (arrived_++ / size_ + 1) * size_;
    const auto met = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return arrived_ >= goal; };
    mutex_.Await(absl::Condition(&met));
  }

 private:
  const int size_;
  absl::Mutex mutex_;
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(BenchTest, MeasuresPhasesInTurns) {
  FakeAnswers answers = DefaultAnswers();
  Lockstep lockstep(3);
  answers.generate = [&lockstep](const v1::GenerateRequest& request, const WriteEvent& write) {
    for (int i = 0; i < request.max_tokens(); ++i) {
      if (request.max_tokens() > 1) lockstep.Meet();
      write(TextEvent(0, "x", {1}));
    }
    write(FinishedEvent(1, request.max_tokens()));
    return absl::OkStatus();
  };
  v1::ProcessStatus& shard = *answers.status.add_processes();
  shard.set_service("shard");
  shard.set_weight_bytes(1000);
  shard.set_kv_bytes(300);
  v1::ProcessStatus& sampler = *answers.status.add_processes();
  sampler.set_service("sampler");
  sampler.set_weight_bytes(50);
  v1::ProcessStatus& embedding = *answers.status.add_processes();
  embedding.set_service("embedding");
  embedding.set_weight_bytes(7);
  FakePipeline pipeline(answers);
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"bench", "--endpoint", pipeline.endpoint(), "--phases", "prefill:40,decode:3",
                      "--rounds", "2", "--max_tokens", "300", "--json"}),
            0);
  const Json report = Json::parse(fake.out.str());
  EXPECT_EQ(report["step_weight_bytes"], 1050);
  EXPECT_EQ(report["kv_bytes"], 300);
  EXPECT_FALSE(report.contains("start_seconds"));
  ASSERT_EQ(report["phases"].size(), 2u);
  EXPECT_EQ(report["phases"][0]["phase"], "prefill:40");
  EXPECT_EQ(report["phases"][1]["phase"], "decode:3");
  EXPECT_EQ(report["phases"][1]["rounds"].size(), 2u);
  EXPECT_GT(report["phases"][1]["tokens_per_second"], 0.0);
  // A round that is not counted, then two.
  const std::vector<v1::GenerateRequest> requests = pipeline.requests();
  ASSERT_EQ(requests.size(), 3u * (1 + 3));
  EXPECT_EQ(requests[0].token_ids().token_ids_size(), 40);
  EXPECT_EQ(requests[0].max_tokens(), 1);
  EXPECT_EQ(requests[1].max_tokens(), 300);
  std::set<std::string> prompts;
  for (const v1::GenerateRequest& request : requests) {
    prompts.insert(request.token_ids().SerializeAsString());
  }
  EXPECT_EQ(prompts.size(), requests.size());
}

TEST(BenchTest, MeasuresDecodingUnderAConstraintToo) {
  FakeAnswers answers = DefaultAnswers();
  Lockstep lockstep(3);
  answers.generate = [&lockstep](const v1::GenerateRequest& request, const WriteEvent& write) {
    for (int i = 0; i < request.max_tokens(); ++i) {
      lockstep.Meet();
      write(TextEvent(0, "x", {1}));
    }
    write(FinishedEvent(1, request.max_tokens()));
    return absl::OkStatus();
  };
  FakePipeline pipeline(answers);
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"bench", "--endpoint", pipeline.endpoint(), "--phases", "decode:3",
                      "--rounds", "1", "--max_tokens", "300", "--regex", "x*", "--json"}),
            0);
  const Json report = Json::parse(fake.out.str());
  const Json& phase = report["phases"][0];
  EXPECT_EQ(phase["constrained"]["rounds"].size(), 1u);
  EXPECT_EQ(phase["constrained"]["times"], phase["constrained"]["tokens_per_second"].get<double>() /
                                               phase["tokens_per_second"].get<double>());
  // Of each round the same prompts, free and then under the constraint.
  const std::vector<v1::GenerateRequest> requests = pipeline.requests();
  ASSERT_EQ(requests.size(), 2u * 2 * 3);
  std::set<std::string> prompts;
  for (size_t i = 0; i < requests.size(); ++i) {
    const bool constrained = i / 3 % 2 == 1;
    prompts.insert(requests[i].token_ids().SerializeAsString());
    EXPECT_EQ(requests[i].constraint().regex(), constrained ? "x*" : "");
    EXPECT_EQ(requests[i].stop().ignore_eos(), !constrained);
    EXPECT_EQ(requests[i].sampling().min_tokens(), constrained ? 300 : 0);
    EXPECT_TRUE(requests[i].drafts().decline());
  }
  EXPECT_EQ(prompts.size(), 2u * 3);
}

TEST(ProgressLineTest, DrawsABarOnATerminal) {
  std::ostringstream err;
  {
    ProgressLine line(err, /*terminal=*/true, /*total=*/4);
    line.Update(absl::UnixEpoch(), 1, 10);
    line.Update(absl::UnixEpoch() + absl::Milliseconds(50), 2, 20);
    line.Update(absl::UnixEpoch() + absl::Milliseconds(60), 4, 40);
    // A line of the log that comes now erases it first.
    EXPECT_EQ(EraseShownBar(), "\r\x1b[K");
  }
  EXPECT_EQ(EraseShownBar(), "");
  EXPECT_EQ(err.str(),
            "\x1b[?7l\r[#######.......................] 1 of 4 requests, 10 tokens\x1b[K\x1b[?7h"
            "\x1b[?7l\r[##############################] 4 of 4 requests, 40 tokens\x1b[K\x1b[?7h"
            "\n");
}

TEST(ProgressLineTest, WritesALineNowAndThenElsewhere) {
  std::ostringstream err;
  {
    ProgressLine line(err, /*terminal=*/false, /*total=*/4);
    line.Update(absl::UnixEpoch(), 0, 1);
    line.Update(absl::UnixEpoch() + absl::Seconds(1), 1, 10);
    line.Update(absl::UnixEpoch() + absl::Seconds(3), 2, 20);
  }
  EXPECT_EQ(err.str(), "0 of 4 requests, 1 tokens\n2 of 4 requests, 20 tokens\n");
}

struct ShardTime {
  uint64_t busy = 0, gap = 0, gap_computed = 0;
};

v1::GetStatusResponse StatusOf(const std::vector<ShardTime>& times) {
  v1::GetStatusResponse status;
  for (const ShardTime& time : times) {
    v1::ProcessStatus& process = *status.add_processes();
    process.set_busy_us(time.busy);
    process.set_gap_us(time.gap);
    process.set_gap_computed_us(time.gap_computed);
  }
  return status;
}

TEST(GapSharesBetween, AreThoseOfTheShardThatWaitsMost) {
  const v1::GetStatusResponse before = StatusOf({{}, {100, 50, 20}, {1000, 7, 0}});
  const auto shares = GapSharesBetween(before, StatusOf({{}, {190, 60, 28}, {1099, 8, 0}}));
  ASSERT_TRUE(shares.has_value());
  EXPECT_EQ(shares->all, 0.1);
  EXPECT_EQ(shares->system, 0.02);
  // One that began anew, and one that has not worked since.
  EXPECT_FALSE(GapSharesBetween(before, StatusOf({{}, {90, 60}, {1000, 7}})).has_value());
  EXPECT_FALSE(GapSharesBetween(before, StatusOf({{}})).has_value());
}

}  // namespace
}  // namespace sluice::testing
