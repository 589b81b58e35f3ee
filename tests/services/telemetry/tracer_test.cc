#include "services/telemetry/tracer.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/services/telemetry/fake_collector.h"

namespace sluice {
namespace {

TEST(Tracer, RecordsWhatItsSamplerSays) {
  testing::FakeCollector collector;
  const Tracer none(collector.Channel(), {.ratio = 0}, {});
  const Tracer all(collector.Channel(), {}, {});
  const TraceContext caller = TraceContext::NewTrace();
  TraceContext sampled = caller;
  sampled.flags = 1;
  EXPECT_FALSE(none.Begin(std::nullopt).context.sampled());
  EXPECT_TRUE(all.Begin(std::nullopt).context.sampled());
  EXPECT_EQ(all.Begin(std::nullopt).parent_span_id, "");
  EXPECT_TRUE(none.Begin(sampled).context.sampled());
  EXPECT_FALSE(all.Begin(caller).context.sampled());
  const Span span = all.Begin(sampled);
  EXPECT_EQ(span.context.trace_id, caller.trace_id);
  EXPECT_EQ(span.parent_span_id, caller.span_id);
  EXPECT_NE(span.context.span_id, caller.span_id);
  const Tracer stubborn(collector.Channel(), {.follows_caller = false, .ratio = 0}, {});
  EXPECT_FALSE(stubborn.Begin(sampled).context.sampled());
  EXPECT_EQ(stubborn.Begin(sampled).context.trace_id, caller.trace_id);
}

TEST(Tracer, PassesOnWhatOtherSystemsSay) {
  testing::FakeCollector collector;
  const Tracer tracer(collector.Channel(), {}, {});
  TraceContext caller = TraceContext::NewTrace();
  caller.state = "vendor=1";
  const Span span = tracer.Begin(caller);
  EXPECT_EQ(span.context.state, "vendor=1");
  EXPECT_EQ(ChildOf(span, "queue", span.start, span.start).context.state, "vendor=1");
}

}  // namespace
}  // namespace sluice
