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
  const TraceContext trace = {kTrace, kSpan, 1, ""};
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
  const TraceContext trace = {kTrace, kSpan, 1, "vendor=1"};
  const TraceContext child = trace.Child();
  EXPECT_EQ(child.trace_id, kTrace);
  EXPECT_NE(child.span_id, kSpan);
  EXPECT_EQ(child.flags, 1);
  EXPECT_EQ(ParseTraceContext(child.ToTraceParent(), child.state), child);
}

TEST(TraceContext, KeepsWhatOtherSystemsSay) {
  const std::string parent = TraceParent("00", kTrace, kSpan, "01");
  const std::string members(255, 'v');
  for (const auto& [sent, kept] : {std::pair<std::string, std::string>("", ""),
                                   {"a=1", "a=1"},
                                   {" a=1 ,,\tb@x/y=2 3 ", "a=1,b@x/y=2 3"},
                                   {"a=" + members, "a=" + members},
                                   {"1-_*=!", "1-_*=!"}}) {
    ASSERT_TRUE(ParseTraceContext(parent, sent).has_value()) << sent;
    EXPECT_EQ(ParseTraceContext(parent, sent)->state, kept) << sent;
  }
}

TEST(TraceContext, GoesOnWithoutAStateThatIsWrong) {
  const std::string parent = TraceParent("00", kTrace, kSpan, "01");
  std::string many = "k0=1";
  for (int i = 1; i < 33; ++i) many += ",k" + std::to_string(i) + "=1";
  for (const std::string& sent :
       {std::string("a"), std::string("a="), std::string("A=1"), std::string("=1"),
        std::string("a=1=2"), std::string("a=1,a=2"), std::string("a=\x7f"), std::string("-a=1"),
        std::string("a=\n1"), many, "a=" + std::string(257, 'v'), std::string(257, 'k') + "=1"}) {
    ASSERT_TRUE(ParseTraceContext(parent, sent).has_value()) << sent;
    EXPECT_EQ(ParseTraceContext(parent, sent)->state, "") << sent;
  }
  EXPECT_EQ(ParseTraceContext("nonsense", "a=1"), std::nullopt);
}

}  // namespace
}  // namespace sluice
