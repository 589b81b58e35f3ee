#include "services/process/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "services/process/log_format.h"
#include "services/process/log_prefix.h"

namespace sluice {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

// The line that a field of this value makes.
std::string LineOf(const std::string& value) {
  CaptureStderr();
  Log(LogLevel::kInfo, "it", "event", {{"name", value}});
  return GetCapturedStderr();
}

TEST(Log, WritesPlainValuesAsTheyAre) {
  EXPECT_THAT(LineOf("unix:/tmp/a-1.sock"), EndsWith(" I it event name=unix:/tmp/a-1.sock\n"));
}

TEST(Log, QuotesAndEscapesWhatWouldBreakALine) {
  EXPECT_THAT(LineOf(""), EndsWith("name=\"\"\n"));
  EXPECT_THAT(LineOf("a b=c"), EndsWith("name=\"a b=c\"\n"));
  EXPECT_THAT(LineOf("a\n2026 E it all-is-lost"), EndsWith("name=\"a\\n2026 E it all-is-lost\"\n"));
  EXPECT_THAT(LineOf("a\rb"), EndsWith("name=\"a\\rb\"\n"));
  EXPECT_THAT(LineOf("\x1b[2J"), EndsWith("name=\"\\033[2J\"\n"));
  EXPECT_THAT(LineOf("a\\nb"), EndsWith("name=\"a\\\\nb\"\n"));
  EXPECT_THAT(LineOf("h\u00e9"), EndsWith("name=\"h\\303\\251\"\n"));
}

// What programs read: each line one object, whatever the values are.
TEST(Log, WritesJsonWhereThatIsWanted) {
  SetLogFormat(LogFormat::kJson);
  EXPECT_THAT(LineOf("a \"b\"\\\n\x1b h\u00e9"),
              EndsWith(R"(,"level":"info","service":"it","event":"event",)"
                       R"("name":"a \"b\"\\\u000a\u001b h\u00c3\u00a9"})"
                       "\n"));
  EXPECT_THAT(LineOf(""), StartsWith(R"({"time":"20)"));
  SetLogFormat(LogFormat::kText);
}

TEST(Log, KnowsTheFormatsByName) {
  EXPECT_EQ(*ParseLogFormat("json"), LogFormat::kJson);
  EXPECT_EQ(*ParseLogFormat("text"), LogFormat::kText);
  EXPECT_THAT(std::string(ParseLogFormat("xml").status().message()),
              HasSubstr("\"xml\" is no format; accepted: text, json"));
}

TEST(Log, WritesEachLineBehindThePrefix) {
  SetLogPrefix([] { return std::string("\r\x1b[K"); });
  EXPECT_THAT(LineOf("a"), StartsWith("\r\x1b[K20"));
  SetLogPrefix(nullptr);
  EXPECT_THAT(LineOf("a"), StartsWith("20"));
}

TEST(Log, DropsLinesBelowTheMinimum) {
  SetMinimumLogLevel(LogLevel::kError);
  EXPECT_THAT(LineOf("a"), IsEmpty());
  SetMinimumLogLevel(LogLevel::kInfo);
}

}  // namespace
}  // namespace sluice
