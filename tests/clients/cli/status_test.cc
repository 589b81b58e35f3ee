// `sluice status` of requests, and `sluice top`, against a server that says what the test wants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/clients/cli/fake_pipeline.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

FakeAnswers WithRequests() {
  FakeAnswers answers = DefaultAnswers();
  v1::GetStatusResponse& status = answers.status;
  status.set_serving(true);
  status.set_model_name("tiny");
  status.mutable_kv_cache()->set_num_blocks(100);
  status.mutable_kv_cache()->set_num_used_blocks(50);
  v1::RequestStatus& request = *status.add_requests();
  request.set_request_id("chat-17\x1b[2J");
  request.set_tenant("beta");
  request.set_state(v1::REQUEST_STATE_RUNNING);
  request.set_age_ms(2500);
  request.set_queue_ms(12);
  for (int i = 0; i < 2; ++i) {
    v1::SequenceStatus& sequence = *request.add_sequences();
    sequence.set_sequence(i);
    sequence.set_state(v1::REQUEST_STATE_RUNNING);
    sequence.set_num_prompt_tokens(40);
    sequence.set_num_generated_tokens(100 + i);
    sequence.set_num_held_blocks(9);
    sequence.set_num_shared_blocks(2);
    sequence.set_num_preemptions(1);
    sequence.mutable_recomputed()->set_after_preemption(33);
  }
  v1::TenantStatus& tenant = *status.add_tenants();
  tenant.set_name("beta");
  tenant.set_num_running_sequences(2);
  return answers;
}

TEST(StatusTest, ShowsALineForEachRequest) {
  FakePipeline server(WithRequests());
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"status", "--requests", "--endpoint", server.endpoint()}), 0);
  const std::string text = fake.out.str();
  EXPECT_THAT(text, ::testing::ContainsRegex("REQUEST +TENANT +STATE +SEQ +PROMPT +TOKENS"));
  EXPECT_THAT(text, ::testing::ContainsRegex(
                        "beta +running +2 +40 +201 +18 +4 +0 +0 +0 +2 +66 +12ms +- +2.5s"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << "a client's text reaches the terminal";
}

TEST(StatusTest, ShowsOneRequestWithItsSequences) {
  FakePipeline server(WithRequests());
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"status", "--request", "chat-17", "--endpoint", server.endpoint()}), 0);
  EXPECT_THAT(fake.out.str(), HasSubstr("Sequence 1  running: 40 prompt tokens, 101 generated"));
  EXPECT_THAT(fake.out.str(), HasSubstr("33 after 1 preemptions"));
}

// What `sluice status` writes on a terminal of so many columns.
std::string OnTerminal(const FakeAnswers& answers, int columns,
                       std::vector<std::string> arguments) {
  FakePipeline server(answers);
  FakeEnvironment fake;
  fake.environment.out_is_terminal = true;
  fake.environment.screen = [columns] { return ScreenSize{.columns = columns, .rows = 24}; };
  arguments.insert(arguments.end(), {"--endpoint", server.endpoint()});
  EXPECT_EQ(fake.Run(arguments), 0);
  return fake.out.str();
}

size_t LongestLine(const std::string& text) {
  size_t longest = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    longest = std::max(longest, line.size());
  }
  return longest;
}

TEST(StatusTest, ShowsTheColumnsThatMatterMostOnANarrowTerminal) {
  FakeAnswers answers = WithRequests();
  answers.status.mutable_requests(0)->set_request_id(std::string(200, 'r'));
  answers.status.mutable_requests(0)->set_tenant(std::string(100, 't'));
  for (const int columns : {40, 100}) {
    const std::string text = OnTerminal(answers, columns, {"status", "--requests"});
    EXPECT_LE(LongestLine(text), static_cast<size_t>(columns)) << text;
    EXPECT_THAT(text, HasSubstr("rrrrrrrrrrrrrrrrrrrrrr..  "));
    EXPECT_THAT(text, HasSubstr("running"));
    EXPECT_THAT(text, ::testing::ContainsRegex("[0-9]+ more columns need [0-9]+ characters"));
  }
  const std::string wide = OnTerminal(answers, 200, {"status", "--requests"});
  EXPECT_THAT(wide, HasSubstr("AGAIN"));
  EXPECT_THAT(wide, Not(HasSubstr("more columns")));
}

TEST(StatusTest, CutsNothingWhereStdoutIsNoTerminal) {
  FakeAnswers answers = WithRequests();
  const std::string id(200, 'r');
  answers.status.mutable_requests(0)->set_request_id(id);
  FakePipeline server(answers);
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"status", "--requests", "--endpoint", server.endpoint()}), 0);
  EXPECT_THAT(fake.out.str(), HasSubstr(id + "  beta"));
}

TEST(StatusTest, FitsTheTerminal) {
  FakeAnswers answers = WithRequests();
  answers.status.set_model_name("a-model-with-a-name");
  for (const char* service : {"embedding", "shard", "sampler"}) {
    v1::ProcessStatus& process = *answers.status.add_processes();
    process.set_service(service);
    process.set_address("unix:/tmp/sluice-abcdef/" + std::string(service));
    process.set_state(v1::PROCESS_STATE_READY);
    process.set_weight_bytes(3 << 20);
    process.set_kv_bytes(512 << 20);
    process.set_arithmetic("cpu/avx512_bf16/2 threads, weights BF16, keys and values F32");
  }
  v1::ProcessStatus& missing = *answers.status.add_processes();
  missing.set_service("tokenizer");
  missing.set_state(v1::PROCESS_STATE_CONNECTING);
  missing.set_detail("its files are others than those of the orchestrator's folder, /models");
  for (const int columns : {40, 80, 120}) {
    const std::string text = OnTerminal(answers, columns, {"status"});
    EXPECT_LE(LongestLine(text), static_cast<size_t>(columns)) << text;
    for (const char* word : {"SERVICE", "STATE", "ready", "connecting", "Sequences", "/models"}) {
      EXPECT_THAT(text, HasSubstr(word)) << columns;
    }
  }
}

TEST(StatusTest, BreaksARequestIntoLinesOfANarrowTerminal) {
  const std::string text = OnTerminal(WithRequests(), 40, {"status", "--request", "chat-17"});
  EXPECT_LE(LongestLine(text), 40u) << text;
  EXPECT_THAT(text, HasSubstr("Times       12ms until its turn, - until\n"
                              "            its first token, 2.5s in all\n"));
  EXPECT_THAT(text, HasSubstr("\n  positions 0 computed, 0 found by their\n            tokens, "));
}

TEST(StatusTest, PutsRequestsIntoJson) {
  FakePipeline server(WithRequests());
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"status", "--requests", "--json", "--endpoint", server.endpoint()}), 0);
  const auto json = nlohmann::json::parse(fake.out.str());
  EXPECT_EQ(json["requests"][0]["sequences"][1]["recomputed"]["after_preemption"], 33);
}

TEST(StatusTest, SaysThatARequestIsUnknown) {
  FakePipeline server(DefaultAnswers());
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"status", "--request", "gone", "--endpoint", server.endpoint()}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("request gone is not being served"));
  EXPECT_THAT(fake.err.str(), HasSubstr("[NOT_FOUND]"));
}

TEST(StatusTest, RefusesBothFlags) {
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"status", "--requests", "--request", "a"}), 2);
  EXPECT_THAT(fake.err.str(), HasSubstr("choose one"));
}

// Ends by the interrupt, with what was shown until then.
std::string Watched(const std::vector<std::string>& arguments, bool terminal,
                    ScreenSize screen = {}) {
  FakePipeline server(WithRequests());
  FakeEnvironment fake;
  fake.environment.out_is_terminal = terminal;
  fake.environment.screen = [screen] { return screen; };
  std::vector<std::string> all = arguments;
  all.insert(all.end(), {"--interval", "0.001", "--endpoint", server.endpoint()});
  int exit = 0;
  std::thread command([&] { exit = fake.Run(all); });
  while (server.num_status_calls() < 4) std::this_thread::yield();
  while (!fake.interrupt.Request(130)) std::this_thread::yield();
  command.join();
  EXPECT_EQ(exit, 130);
  EXPECT_THAT(fake.err.str(), IsEmpty());
  return fake.out.str();
}

TEST(StatusTest, WatchesUntilInterrupted) {
  const std::string text = Watched({"status", "--requests", "--watch"}, false);
  EXPECT_GE(text.find("REQUEST", text.find("REQUEST") + 1), text.find("beta"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(StatusTest, WatchesNoMoreThanTheScreenShows) {
  const std::string text = Watched({"status", "--watch"}, true, {.columns = 40, .rows = 6});
  EXPECT_THAT(text, ::testing::ContainsRegex("\\.\\.\\. and [0-9]+ lines more"));
  const size_t second = text.find("\x1b[H", text.find("\x1b[H") + 1);
  EXPECT_EQ(std::count(text.begin(), text.begin() + second, '\n'), 5);
}

TEST(TopTest, ShowsThePipelineAtWorkInOnePlaceOnATerminal) {
  const std::string text = Watched({"top"}, true);
  EXPECT_THAT(text, HasSubstr("\x1b[2J\x1b[H"));
  EXPECT_EQ(text.find("\x1b[2J", 4), std::string::npos) << "cleared once";
  EXPECT_THAT(text, HasSubstr("[####################....................] 50 used (#)"));
  EXPECT_THAT(text, HasSubstr("beta"));
}

TEST(TopTest, ShowsOnlyAsManyRequestsAsAskedFor) {
  FakeAnswers answers = WithRequests();
  for (int i = 0; i < 4; ++i) answers.status.add_requests()->set_request_id("more");
  FakePipeline server(answers);
  FakeEnvironment fake;
  std::thread command([&] {
    fake.Run({"top", "--rows", "2", "--interval", "0.001", "--endpoint", server.endpoint()});
  });
  while (server.num_status_calls() < 2) std::this_thread::yield();
  while (!fake.interrupt.Request(130)) std::this_thread::yield();
  command.join();
  EXPECT_THAT(fake.out.str(), HasSubstr("and 3 more"));
}

}  // namespace
}  // namespace sluice::testing
