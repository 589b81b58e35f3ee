#include "services/gateway/batches/batch_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "services/gateway/json/object_reader.h"

namespace sluice::gateway {
namespace {

using ::testing::HasSubstr;

constexpr char kGood[] =
    R"({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"z": 1.0, "a": 2}})";

TEST(BatchLineTest, KeepsTheBodyAsItWasWritten) {
  const auto line = ReadBatchLine(kGood, "/v1/completions");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->custom_id, "a");
  EXPECT_EQ(line->url, "/v1/completions");
  EXPECT_EQ(line->body, R"({"z": 1.0, "a": 2})");
  EXPECT_TRUE(ReadBatchLine(kGood, "").ok());
}

TEST(BatchLineTest, RefusesWhatCanNotRun) {
  struct Case {
    std::string line, parameter, code;
  };
  const std::vector<Case> cases = {
      {"{", "", "invalid_json_line"},
      {"[]", "", "invalid_json_line"},
      {R"({"url": "/v1/completions", "body": {}})", "custom_id", "missing_required_parameter"},
      {R"({"custom_id": 1, "url": "/v1/completions", "body": {}})", "custom_id", "invalid_type"},
      {R"({"custom_id": "a", "method": "GET", "url": "/v1/completions", "body": {}})", "method",
       "invalid_method"},
      {R"({"custom_id": "a", "url": "/v1/chat/completions", "body": {}})", "url",
       "mismatched_endpoint"},
      {R"({"custom_id": "a", "url": "/v1/completions"})", "body", "missing_required_parameter"},
      {R"({"custom_id": "a", "url": "/v1/completions", "body": {}, "more": 1})", "more",
       "unknown_parameter"},
      {R"({"custom_id": "a", "url": "/v1/completions", "body": {"stream": true}})", "body.stream",
       "invalid_value"},
  };
  for (const Case& c : cases) {
    const absl::Status status = ReadBatchLine(c.line, "/v1/completions").status();
    ASSERT_FALSE(status.ok()) << c.line;
    EXPECT_EQ(std::string(status.GetPayload(kParameterPayload).value_or(absl::Cord())), c.parameter)
        << status;
    EXPECT_EQ(std::string(status.GetPayload(kCodePayload).value_or(absl::Cord())), c.code)
        << status;
  }
  const absl::Status other =
      ReadBatchLine(R"({"custom_id": "a", "url": "/v1/embeddings", "body": {}})", "").status();
  EXPECT_THAT(std::string(other.message()), HasSubstr("'/v1/chat/completions'"));
}

TEST(BatchLineTest, ResultsNameTheirLine) {
  const std::string line = AnsweredLine(
      "r1", 7, "a \"b\"",
      {.status = 200, .headers = {{"x-request-id", "req_1"}}, .body = R"({"id":"x"})"});
  EXPECT_EQ(line.back(), '\n');
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["id"], "batch_req_r1_7");
  EXPECT_EQ(json["custom_id"], "a \"b\"");
  EXPECT_EQ(json["response"]["status_code"], 200);
  EXPECT_EQ(json["response"]["request_id"], "req_1");
  EXPECT_EQ(json["response"]["body"]["id"], "x");
  EXPECT_TRUE(json["error"].is_null());
  EXPECT_EQ(NumberOfLine(line, "r1"), 7);
  EXPECT_EQ(NumberOfLine(line, "r2"), std::nullopt);
  for (size_t size = 0; size + 2 < line.size(); ++size) {
    EXPECT_TRUE(BeginsAsLine(line.substr(0, size), "r1")) << size;
  }
  EXPECT_EQ(NumberOfLine(line.substr(0, 40), "r1"), std::nullopt);
  EXPECT_FALSE(BeginsAsLine("something else", "r1"));

  const std::string failed = UnansweredLine("r1", 8, "b", "batch_expired", "too late");
  EXPECT_EQ(nlohmann::json::parse(failed)["error"]["code"], "batch_expired");
  EXPECT_TRUE(nlohmann::json::parse(failed)["response"].is_null());
  EXPECT_EQ(NumberOfLine(failed, "r1"), 8);
}

}  // namespace
}  // namespace sluice::gateway
