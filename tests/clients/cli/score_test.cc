// `sluice score` and `sluice status` against a service that says what the test tells it to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/clients/cli/fake_pipeline.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The last request that came, on whichever thread.
class SeenRequest {
 public:
  void Set(const v1::ScoreRequest& request) {
    absl::MutexLock lock(&mutex_);
    request_ = request;
  }
  v1::ScoreRequest Get() {
    absl::MutexLock lock(&mutex_);
    return request_;
  }

 private:
  absl::Mutex mutex_;
  v1::ScoreRequest request_ ABSL_GUARDED_BY(mutex_);
};

// Scores three tokens and keeps the request.
FakeAnswers Scoring(SeenRequest* seen) {
  FakeAnswers answers = DefaultAnswers();
  answers.score = [seen](const v1::ScoreRequest& request) {
    seen->Set(request);
    v1::ScoreResponse score;
    for (const int id : {4, 5, 6}) score.add_token_ids(id);
    score.add_logprobs()->set_logprob(-1.2f);
    score.add_logprobs()->set_logprob(-std::numeric_limits<float>::infinity());
    for (v1::PositionLogprobs& position : *score.mutable_logprobs()) {
      position.add_top()->set_token_id(9);
      position.mutable_top(0)->set_logprob(-0.5f);
    }
    score.set_mean_nll(1.25);
    score.set_perplexity(3.5);
    score.set_sum_logprob(-2.5);
    return score;
  };
  return answers;
}

TEST(ScoreTest, PrintsOneJsonObject) {
  SeenRequest seen;
  FakePipeline pipeline(Scoring(&seen));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"score", "--endpoint", pipeline.endpoint(), "--text", "words", "--json"}), 0);
  EXPECT_EQ(fake.out.str(),
            "{\"token_ids\":[4,5,6],\"logprobs\":[null,-1.2,null],\"mean_nll\":1.25,"
            "\"perplexity\":3.5,\"sum_logprob\":-2.5}\n");
  EXPECT_EQ(seen.Get().text(), "words");
  EXPECT_EQ(seen.Get().top(), 0);
}

TEST(ScoreTest, PrintsTheMostProbableTokensWhereAsked) {
  SeenRequest seen;
  FakePipeline pipeline(Scoring(&seen));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"score", "--endpoint", pipeline.endpoint(), "--token_ids", "4,5,6", "--top",
                      "1", "--json"}),
            0);
  EXPECT_THAT(fake.out.str(), HasSubstr("\"top\":[null,[{\"token_id\":9,\"logprob\":-0.5}],"));
  EXPECT_EQ(seen.Get().top(), 1);
  EXPECT_EQ(seen.Get().token_ids().token_ids_size(), 3);
}

TEST(ScoreTest, PrintsASummary) {
  SeenRequest seen;
  FakePipeline pipeline(Scoring(&seen));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"score", "--endpoint", pipeline.endpoint(), "--text", "words"}), 0);
  EXPECT_EQ(fake.out.str(),
            "tokens      3, 2 of them scored\n"
            "mean nll    1.250000 nats per token\n"
            "perplexity  3.5\n");
}

TEST(ScoreTest, ReadsFilesAndStdin) {
  SeenRequest seen;
  FakePipeline pipeline(Scoring(&seen));
  const TempFolder folder;
  FakeEnvironment file;
  EXPECT_EQ(file.Run({"score", "--endpoint", pipeline.endpoint(), "--file",
                      folder.Write("text", "two\nlines\n")}),
            0);
  EXPECT_EQ(seen.Get().text(), "two\nlines\n");
  FakeEnvironment piped;
  piped.in.str("piped");
  EXPECT_EQ(piped.Run({"score", "--endpoint", pipeline.endpoint(), "--file", "-"}), 0);
  EXPECT_EQ(seen.Get().text(), "piped");
  FakeEnvironment empty;
  EXPECT_EQ(
      empty.Run({"score", "--endpoint", pipeline.endpoint(), "--file", folder.Write("empty", "")}),
      0);
  EXPECT_TRUE(seen.Get().has_text());
  EXPECT_EQ(seen.Get().text(), "");
}

TEST(ScoreTest, ScoresTheTextsInLines) {
  SeenRequest seen;
  FakeAnswers answers = DefaultAnswers();
  answers.score = [&seen](const v1::ScoreRequest& request) {
    seen.Set(request);
    v1::ScoreResponse response;
    for (int i = 0; i < request.inputs_size(); ++i) {
      v1::ScoredText& score = *response.add_scores();
      score.add_token_ids(i);
      score.set_sum_logprob(-i);
      score.set_perplexity(1);
    }
    return response;
  };
  FakePipeline pipeline(answers);
  FakeEnvironment piped;
  piped.in.str("one\n\ntwo\n");
  EXPECT_EQ(piped.Run({"score", "--endpoint", pipeline.endpoint(), "--lines", "-", "--json"}), 0);
  EXPECT_EQ(piped.out.str(),
            "{\"token_ids\":[0],\"logprobs\":[null],\"mean_nll\":0.0,\"perplexity\":1.0,"
            "\"sum_logprob\":0.0}\n"
            "{\"token_ids\":[1],\"logprobs\":[null],\"mean_nll\":0.0,\"perplexity\":1.0,"
            "\"sum_logprob\":-1.0}\n");
  EXPECT_EQ(seen.Get().inputs(1).text(), "two");
  // More than a call takes go in several.
  FakeEnvironment many;
  for (int i = 0; i < 130; ++i) many.in << "x\n";
  EXPECT_EQ(many.Run({"score", "--endpoint", pipeline.endpoint(), "--lines", "-"}), 0);
  EXPECT_EQ(seen.Get().inputs_size(), 2);
  EXPECT_THAT(many.out.str(), HasSubstr("tokens    sum logprob   mean nll   perplexity\n"));
  FakeEnvironment empty;
  empty.in.str("\n\n");
  EXPECT_EQ(empty.Run({"score", "--endpoint", pipeline.endpoint(), "--lines", "-"}), 1);
  EXPECT_THAT(empty.err.str(), HasSubstr("- has no line with a text"));
}

TEST(ScoreTest, SaysWhatIsWrongWithAFile) {
  const TempFolder folder;
  FakeEnvironment missing;
  EXPECT_EQ(missing.Run({"score", "--file", folder.PathOf("missing")}), 1);
  EXPECT_THAT(missing.err.str(), HasSubstr(folder.PathOf("missing") + ": No such file"));
  FakeEnvironment binary;
  const std::string path = folder.Write("binary", "abc\xFE");
  EXPECT_EQ(binary.Run({"score", "--file", path}), 1);
  EXPECT_THAT(binary.err.str(), HasSubstr(path + " is not UTF-8: byte 0xFE at offset 3"));
}

// What a server says, or a file is called, cannot drive the terminal.
TEST(ScoreTest, SpellsControlCharactersOutAtATerminal) {
  FakeAnswers answers = DefaultAnswers();
  answers.score = [](const v1::ScoreRequest&) {
    return absl::InvalidArgumentError("no \x1b[2J here");
  };
  FakePipeline pipeline(answers);
  for (const bool terminal : {false, true}) {
    const std::string escape = terminal ? "\\x1b" : "\x1b";
    FakeEnvironment refused;
    refused.environment.err_is_terminal = terminal;
    EXPECT_EQ(refused.Run({"score", "--endpoint", pipeline.endpoint(), "--text", "words"}), 1);
    EXPECT_EQ(refused.err.str(), "sluice: no " + escape + "[2J here [INVALID_ARGUMENT]\n");
    FakeEnvironment missing;
    missing.environment.err_is_terminal = terminal;
    EXPECT_EQ(missing.Run({"score", "--file", "/nowhere/\x1b[2J"}), 1);
    EXPECT_THAT(missing.err.str(), HasSubstr("/nowhere/" + escape + "[2J: "));
    FakeEnvironment wrong;
    wrong.environment.err_is_terminal = terminal;
    EXPECT_EQ(wrong.Run({"score", "\x1b[2J"}), 2);
    EXPECT_THAT(wrong.err.str(), HasSubstr(escape + "[2J"));
  }
}

TEST(ScoreTest, PrintsTheServersRefusal) {
  FakePipeline pipeline(DefaultAnswers());
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"score", "--endpoint", pipeline.endpoint(), "--text", ""}), 1);
  EXPECT_THAT(fake.out.str(), IsEmpty());
  EXPECT_EQ(fake.err.str(), "sluice: not in this test [UNIMPLEMENTED]\n");
}

FakeAnswers WithStatus(bool serving) {
  FakeAnswers answers = DefaultAnswers();
  v1::GetStatusResponse& status = answers.status;
  status.set_serving(serving);
  status.set_model_name("storyteller");
  status.set_num_stages(1);
  status.set_num_ranks(2);
  status.set_epoch(3);
  status.set_num_recoveries(2);
  status.set_uptime_ms(1500);
  for (int rank = 0; rank < 2; ++rank) {
    v1::ProcessStatus* shard = status.add_processes();
    shard->set_service("shard");
    shard->set_rank(rank);
    shard->set_address("unix:/tmp/s/shard-0-" + std::to_string(rank));
    shard->set_state(v1::PROCESS_STATE_READY);
    shard->set_weight_bytes(3 << 20);
    shard->set_kv_bytes(1 << 19);
    shard->set_arithmetic("cpu/portable, weights BF16");
  }
  if (!serving) {
    status.mutable_processes(1)->set_state(v1::PROCESS_STATE_CONNECTING);
    status.mutable_processes(1)->set_detail("connection refused");
  }
  status.add_processes()->set_service("sampler");
  status.mutable_kv_cache()->set_block_size(16);
  status.mutable_kv_cache()->set_num_blocks(100);
  status.mutable_kv_cache()->set_num_used_blocks(25);
  status.mutable_kv_cache()->set_num_shared_blocks(5);
  status.mutable_kv_cache()->set_num_cached_blocks(15);
  status.mutable_kv_cache()->set_num_free_blocks(60);
  status.mutable_kv_cache()->set_num_hit_positions(640);
  status.mutable_kv_cache()->set_num_copied_blocks(2);
  status.mutable_kv_cache()->set_num_evicted_blocks(3);
  status.set_num_waiting_sequences(4);
  status.set_num_running_sequences(5);
  return answers;
}

TEST(StatusTest, PrintsTheTopologyAndExits0WhileServing) {
  FakePipeline pipeline(WithStatus(true));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"status", "--endpoint", pipeline.endpoint()}), 0);
  const std::string out = fake.out.str();
  EXPECT_THAT(out, HasSubstr(pipeline.endpoint() +
                             " is serving: model storyteller, stages 1, ranks 2, up 1.5s\n"));
  EXPECT_THAT(
      out,
      HasSubstr("\nshard           0     1  ready          3.0 MiB    0.5 MiB       -       -  "
                "unix:/tmp/s/shard-0-1  cpu/portable, weights BF16\n"));
  EXPECT_THAT(out,
              HasSubstr("\nsampler         -     -  unspecified          -          -       -  "));
  EXPECT_THAT(out, HasSubstr("KV blocks   25 used, 15 cached, 60 free, 100 in all, of 16 "
                             "positions each\n"
                             "Prefixes    640 positions found again, 2 blocks copied, 3 "
                             "evicted\n"));
  EXPECT_THAT(out, HasSubstr("Sequences   5 running, 4 waiting, 0 paused; 0 preemptions so far\n"));
  EXPECT_THAT(out, HasSubstr("Recoveries  2, epoch 3\n"));
}

TEST(StatusTest, Exits1AndSaysWhyWhileNotServing) {
  FakePipeline pipeline(WithStatus(false));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"status", "--endpoint", pipeline.endpoint()}), 1);
  EXPECT_THAT(fake.out.str(), HasSubstr("is not serving"));
  EXPECT_THAT(fake.out.str(),
              HasSubstr("  0.5 MiB       -       -  unix:/tmp/s/shard-0-1  connection refused"));
}

TEST(StatusTest, SpellsControlCharactersOutAtATerminal) {
  FakeAnswers answers = WithStatus(true);
  answers.status.set_model_name("story\x1b[2J");
  FakePipeline pipeline(answers);
  for (const bool terminal : {false, true}) {
    FakeEnvironment fake;
    fake.environment.out_is_terminal = terminal;
    EXPECT_EQ(fake.Run({"status", "--endpoint", pipeline.endpoint()}), 0);
    EXPECT_THAT(fake.out.str(), HasSubstr(terminal ? "story\\x1b[2J" : "story\x1b[2J"));
  }
}

TEST(StatusTest, PrintsOneJsonObject) {
  FakePipeline pipeline(WithStatus(true));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"status", "--endpoint", pipeline.endpoint(), "--json"}), 0);
  const std::string out = fake.out.str();
  EXPECT_THAT(out, HasSubstr("{\"serving\":true,\"model\":\"storyteller\",\"epoch\":3,"));
  EXPECT_THAT(out, HasSubstr("\"state\":\"ready\",\"detail\":\"\",\"weight_bytes\":3145728,"
                             "\"kv_bytes\":524288,\"stage\":0,\"rank\":1,"
                             "\"busy_us\":0,\"gap_us\":0,\"gap_computed_us\":0,"
                             "\"arithmetic\":\"cpu/portable, weights BF16\"}"));
  EXPECT_THAT(out, HasSubstr("\"kv_cache\":{\"block_size\":16,\"num_blocks\":100,"
                             "\"num_used_blocks\":25,\"num_shared_blocks\":5,"
                             "\"num_cached_blocks\":15,\"num_free_blocks\":60,"
                             "\"num_hit_positions\":640,\"num_copied_blocks\":2,"
                             "\"num_evicted_blocks\":3}"));
}

TEST(StatusTest, Exits1WhereNobodyListens) {
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"status", "--endpoint", "127.0.0.1:9", "--connect_timeout=0.1"}), 1);
  EXPECT_THAT(fake.out.str(), IsEmpty());
  EXPECT_THAT(fake.err.str(), HasSubstr("cannot reach 127.0.0.1:9"));
}

}  // namespace
}  // namespace sluice::testing
