#include "services/telemetry/trace_sampler.h"

#include <gtest/gtest.h>

#include <optional>

namespace sluice {
namespace {

TEST(TraceSampler, SamplesByTheTracesIdAlone) {
  const TraceContext low = {"ffffffffffffffff0000000000000001", "1", 0, ""};
  const TraceContext high = {"0000000000000001ffffffffffffffff", "1", 0, ""};
  EXPECT_TRUE(IsSampled(low, 0.001));
  EXPECT_FALSE(IsSampled(low, 0));
  EXPECT_FALSE(IsSampled(high, 0.999));
  EXPECT_TRUE(IsSampled(high, 1));
  int sampled = 0;
  for (int i = 0; i < 4000; ++i) sampled += IsSampled(TraceContext::NewTrace(), 0.25) ? 1 : 0;
  EXPECT_NEAR(sampled, 1000, 200);  // 7 standard deviations
}

TEST(TraceSampler, HasTheNamesOfOpenTelemetry) {
  EXPECT_EQ(*ParseTraceSampler("always_on", ""),
            (TraceSampler{.follows_caller = false, .ratio = 1}));
  EXPECT_EQ(*ParseTraceSampler("always_off", "0.5"),
            (TraceSampler{.follows_caller = false, .ratio = 0}));
  EXPECT_EQ(*ParseTraceSampler("traceidratio", "0.5"),
            (TraceSampler{.follows_caller = false, .ratio = 0.5}));
  EXPECT_EQ(*ParseTraceSampler("traceidratio", ""),
            (TraceSampler{.follows_caller = false, .ratio = 1}));
  EXPECT_EQ(*ParseTraceSampler("parentbased_always_on", ""), TraceSampler{});
  EXPECT_EQ(*ParseTraceSampler("parentbased_always_off", ""), TraceSampler{.ratio = 0});
  EXPECT_EQ(*ParseTraceSampler("parentbased_traceidratio", "1e-3"), TraceSampler{.ratio = 1e-3});
  for (const char* name :
       {"", "always", "ALWAYS_ON", "parentbased_", "parentbased_parentbased_always_on"}) {
    EXPECT_FALSE(ParseTraceSampler(name, "").ok()) << name;
  }
  for (const char* ratio : {"-0.1", "1.1", "nan", "half", "0.5x"}) {
    EXPECT_FALSE(ParseTraceSampler("traceidratio", ratio).ok()) << ratio;
  }
}

TEST(TraceSampler, FollowsACallerOrNot) {
  TraceContext caller = TraceContext::NewTrace();
  const TraceContext trace = caller.Child();
  caller.flags = 1;
  EXPECT_TRUE((TraceSampler{.ratio = 0}.Samples(caller, trace)));
  EXPECT_FALSE((TraceSampler{.ratio = 0}.Samples(std::nullopt, trace)));
  EXPECT_FALSE((TraceSampler{.follows_caller = false, .ratio = 0}.Samples(caller, trace)));
  caller.flags = 0;
  EXPECT_FALSE((TraceSampler{}.Samples(caller, trace)));
  EXPECT_TRUE((TraceSampler{.follows_caller = false}.Samples(caller, trace)));
}

}  // namespace
}  // namespace sluice
