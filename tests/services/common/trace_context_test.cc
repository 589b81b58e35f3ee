#include "services/common/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

constexpr char kTrace[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kSpan[] = "b7ad6b7169203331";

std::string TraceParent(const std::string& version, const std::string& trace,
                        const std::string& span, const std::string& flags) {
  return version + "-" + trace + "-" + span + "-" + flags;
}

TEST(TraceContext, ReadsWhatItWrites) {
  const TraceContext trace = {kTrace, kSpan, 1};
  EXPECT_EQ(trace.ToTraceParent(), TraceParent("00", kTrace, kSpan, "01"));
  EXPECT_EQ(ParseTraceParent(trace.ToTraceParent()), trace);
}

TEST(TraceContext, TakesOfLaterVersionsWhatTheFirstHas) {
  for (const char* more : {"", "-", "-what comes"}) {
    const auto trace = ParseTraceParent(TraceParent("01", kTrace, kSpan, "00") + more);
    ASSERT_TRUE(trace.has_value()) << more;
    EXPECT_EQ(trace->trace_id, kTrace);
  }
}

TEST(TraceContext, IgnoresEverythingElse) {
  const std::string none(32, '0');
  for (const std::string& text :
       {std::string(), std::string("00"), std::string(55, '-'),
        TraceParent("ff", kTrace, kSpan, "00"), TraceParent("0x", kTrace, kSpan, "00"),
        TraceParent("00", none, kSpan, "00"), TraceParent("00", kTrace, none.substr(16), "00"),
        TraceParent("00", "0AF7651916CD43DD8448EB211C80319C", kSpan, "00"),
        TraceParent("00", kTrace, kSpan, "0g"), TraceParent("00", kTrace, kSpan, "000"),
        TraceParent("00", kTrace, kSpan, "00") + "-more",
        TraceParent("01", kTrace, kSpan, "00") + "more"}) {
    EXPECT_EQ(ParseTraceParent(text), std::nullopt) << text;
  }
}

TEST(TraceContext, ACallMadeForItIsAnotherSpanOfTheTrace) {
  const TraceContext trace = {kTrace, kSpan, 1};
  const TraceContext child = trace.Child();
  EXPECT_EQ(child.trace_id, kTrace);
  EXPECT_NE(child.span_id, kSpan);
  EXPECT_EQ(child.flags, 1);
  EXPECT_EQ(ParseTraceParent(child.ToTraceParent()), child);
}

}  // namespace
}  // namespace sluice
