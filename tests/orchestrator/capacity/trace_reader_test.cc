#include "orchestrator/capacity/trace_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Trace> Read(const std::string& text, const TraceOptions& options = {}) {
  std::istringstream in(text);
  return ReadTrace(in, "trace", options);
}

std::vector<TokenId> Beginning(const Trace& trace, size_t index, size_t count) {
  std::vector<TokenId> tokens = PromptOf(trace, index);
  tokens.resize(count);
  return tokens;
}

TEST(TraceReaderTest, ReadsMooncakesLinesAndSharesWhatHashIdsShare) {
  const absl::StatusOr<Trace> trace =
      Read(R"({"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [5, 9]})"
           "\n\n"
           R"({"timestamp": 1000, "input_length": 1100, "output_length": 0, "hash_ids": [5, 9, 8]})"
           "\r\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_EQ(trace->requests[0].arrival, 0);  // sorted, the first at 0
  EXPECT_EQ(trace->requests[0].prompt_tokens, 1100);
  EXPECT_EQ(trace->requests[0].new_tokens, 1);
  EXPECT_EQ(trace->requests[1].arrival, 2);
  EXPECT_EQ(trace->requests[1].new_tokens, 7);
  EXPECT_EQ(PromptOf(*trace, 1).size(), 600u);
  // The last id of the shorter one names 88 tokens, with which those of the longer one begin.
  EXPECT_EQ(Beginning(*trace, 0, 600), Beginning(*trace, 1, 600));
}

TEST(TraceReaderTest, GivesPromptsWithoutHashIdsTokensOfTheirOwn) {
  const absl::StatusOr<Trace> trace = Read(
      "{\"timestamp\": 0, \"input_length\": 40, \"output_length\": 1}\n"
      "{\"timestamp\": 0, \"input_length\": 40, \"output_length\": 1}\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_NE(Beginning(*trace, 0, 8), Beginning(*trace, 1, 8));
  EXPECT_EQ(PromptOf(*trace, 0), PromptOf(*trace, 0));
}

TEST(TraceReaderTest, ReadsAzuresTables) {
  const absl::StatusOr<Trace> trace = Read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 18:15:46.6805900,374,44\r\n"
      "2023-11-16 18:15:50.9951690,396,109\r\n"
      "2023-11-16 18:16:00+00:00,1,0\r\n",
      {.speed = 2});
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->requests.size(), 3u);
  EXPECT_EQ(trace->requests[1].prompt_tokens, 396);
  EXPECT_EQ(trace->requests[1].new_tokens, 109);
  EXPECT_NEAR(trace->requests[1].arrival, 4.314579 / 2, 1e-5);
  EXPECT_NEAR(trace->requests[2].arrival, 13.31941 / 2, 1e-5);
}

constexpr char kTextLog[] =
    "2026-01-31T12:00:00.000Z info orchestrator replica-ready epoch=1\n"
    "2026-01-31T12:00:05.500Z info orchestrator request-ended request_id=\"a \\\" b\" tenant=chat "
    "outcome=ok reason=length prompt_tokens=90 cached_tokens=64 generated_tokens=3 "
    "queue_ms=1 first_token_ms=20 total_ms=500\n"
    "2026-01-31T12:00:05.900Z info orchestrator request-ended request_id=b tenant=chat "
    "outcome=cancelled reason=gone prompt_tokens=9 cached_tokens=0 generated_tokens=0 "
    "queue_ms=- first_token_ms=- total_ms=1\n"
    "2026-01-31T12:00:04.500Z info orchestrator request-ended request_id=c tenant=chat "
    "outcome=ok prompt_tokens=100 cached_tokens=64 generated_tokens=8 total_ms=500\n";

TEST(TraceReaderTest, ReadsTheOrchestratorsLogAndLeavesOutWhatWroteNothing) {
  const absl::StatusOr<Trace> trace = Read(kTextLog);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_EQ(trace->num_skipped, 1);
  EXPECT_EQ(trace->requests[0].prompt_tokens, 100);
  EXPECT_NEAR(trace->requests[1].arrival, 1, 1e-6);
  EXPECT_THAT(trace->tenants, ElementsAre("", "chat"));
  EXPECT_EQ(trace->requests[1].tenant, 1u);
  EXPECT_EQ(Beginning(*trace, 0, 64), Beginning(*trace, 1, 64));
  EXPECT_NE(Beginning(*trace, 0, 90), Beginning(*trace, 1, 90));
}

TEST(TraceReaderTest, ReadsTheLogAsJson) {
  const absl::StatusOr<Trace> trace = Read(
      R"({"time": "2026-01-31T12:00:00.000Z", "event": "replica-ready"})"
      "\n"
      R"({"time": "2026-01-31T12:00:01.000Z", "event": "request-ended", "tenant": "", )"
      R"("prompt_tokens": "12", "cached_tokens": "0", "generated_tokens": 5, "total_ms": "250"})");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->requests.size(), 1u);
  EXPECT_EQ(trace->requests[0].prompt_tokens, 12);
  EXPECT_EQ(trace->requests[0].new_tokens, 5);
}

TEST(TraceReaderTest, StopsAfterAsManyRequestsAsAreWanted) {
  const absl::StatusOr<Trace> trace = Read(kTextLog, {.max_requests = 1});
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->requests.size(), 1u);
}

TEST(TraceReaderTest, NamesLineFieldAndValueOfWhatIsMalformed) {
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::string good = R"({"timestamp": 0, "input_length": 1, "output_length": 1})"
                           "\n";
  const struct {
    std::string text, message;
  } cases[] = {
      {"", "trace: there is no request in it; accepted: Mooncake's"},
      {azure, "trace: there is no request in it"},
      {"TIMESTAMP,Tokens\n",
       "trace:1: header is \"TIMESTAMP,Tokens\"; accepted: TIMESTAMP,Context"},
      {azure + "2023-11-16 18:15:46,374\n", "trace:2: the line is \"2023-11-16 18:15:46,374\""},
      {azure + "yesterday,374,4\n", "trace:2: TIMESTAMP is \"yesterday\"; accepted: YYYY-MM-DD"},
      {azure + "2023-11-16 18:15:46,0,4\n",
       "trace:2: ContextTokens is \"0\"; accepted: an integer from 1 to 16777216"},
      {azure + "2023-11-16 18:15:46,5,-4\n", "trace:2: GeneratedTokens is \"-4\""},
      {good + "{\"timestamp\": 1", "trace:2: "},
      {good + "[1]\n", "trace:2: [1] is no object"},
      {good + R"({"input_length": 1, "output_length": 1})",
       "trace:2: timestamp is missing; accepted: milliseconds"},
      {good + R"({"timestamp": -1, "input_length": 1, "output_length": 1})",
       "trace:2: timestamp is -1"},
      {good + R"({"timestamp": 1, "input_length": 0, "output_length": 1})",
       "trace:2: input_length is 0; accepted: "},
      {good + R"({"timestamp": 1, "input_length": 513, "output_length": 1, "hash_ids": [1]})",
       "trace:2: hash_ids has 1 entries; accepted: 2, one for each 512 of the 513 tokens"},
      {good + R"({"timestamp": 1, "input_length": 5, "output_length": 1, "hash_ids": ["a"]})",
       "trace:2: hash_ids is [\"a\"]; accepted: a list of integers from 0"},
      {"2026-01-31T12:00:00Z info orchestrator request-ended prompt_tokens=many\n",
       "trace:1: prompt_tokens is \"many\"; accepted: an integer from 0"},
      {"noon info orchestrator request-ended prompt_tokens=1 cached_tokens=0 generated_tokens=1\n",
       "trace:1: time is \"noon\"; accepted: such as"},
      {"2026-01-31T12:00:00Z info orchestrator request-ended request_id=\"a\n",
       "trace:1: request_id is \"a\"; accepted: a value that ends with a quotation mark"},
  };
  for (const auto& [text, message] : cases) {
    const absl::StatusOr<Trace> trace = Read(text);
    EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr(message)) << text;
  }
}

TEST(TraceReaderTest, SaysWhyAFileCannotBeRead) {
  EXPECT_THAT(std::string(ReadTraceFile("/nowhere/trace", {}).status().message()),
              HasSubstr("/nowhere/trace: cannot be read: No such file"));
  EXPECT_THAT(std::string(ReadTraceFile("/", {}).status().message()),
              HasSubstr("/: cannot be read: "));
}

}  // namespace
}  // namespace sluice
