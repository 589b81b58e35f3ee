#include "services/telemetry/otlp_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace sluice {
namespace {

using ::testing::ElementsAre;
namespace trace = opentelemetry::proto::trace::v1;

Span Example() {
  Span span;
  span.context = {"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1, "vendor=1"};
  span.parent_span_id = "00f067aa0ba902b7";
  span.name = "chat storyteller";
  span.kind = SpanKind::kServer;
  span.start = absl::FromUnixNanos(1'700'000'000'000'000'001);
  span.end = absl::FromUnixNanos(1'700'000'000'000'000'009);
  return span;
}

trace::Span Sent(const Span& span) {
  return ExportRequest({}, {span}).resource_spans(0).scope_spans(0).spans(0);
}

TEST(OtlpMessages, CarryEverythingOfASpan) {
  Span span = Example();
  span.Add("text", "value");
  span.Add("flag", true);
  span.Add("number", int64_t{-7});
  span.Add("part", 0.25);
  span.Add("list", std::vector<std::string>{"stop", "length"});
  span.events = {{span.start, "preempted", {{"n", int64_t{1}}}}};
  span.num_dropped_events = 3;
  const trace::Span sent = Sent(span);
  EXPECT_EQ(sent.trace_id(),
            std::string("\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c", 16));
  EXPECT_EQ(sent.span_id(), std::string("\xb7\xad\x6b\x71\x69\x20\x33\x31", 8));
  EXPECT_EQ(sent.parent_span_id(), std::string("\x00\xf0\x67\xaa\x0b\xa9\x02\xb7", 8));
  EXPECT_EQ(sent.trace_state(), "vendor=1");
  EXPECT_EQ(sent.flags(), 1u);
  EXPECT_EQ(sent.name(), "chat storyteller");
  EXPECT_EQ(sent.kind(), trace::Span::SPAN_KIND_SERVER);
  EXPECT_EQ(sent.start_time_unix_nano(), 1'700'000'000'000'000'001u);
  EXPECT_EQ(sent.end_time_unix_nano(), 1'700'000'000'000'000'009u);
  ASSERT_EQ(sent.attributes_size(), 5);
  EXPECT_EQ(sent.attributes(0).value().string_value(), "value");
  EXPECT_TRUE(sent.attributes(1).value().bool_value());
  EXPECT_EQ(sent.attributes(2).value().int_value(), -7);
  EXPECT_EQ(sent.attributes(3).value().double_value(), 0.25);
  EXPECT_EQ(sent.attributes(4).value().array_value().values(1).string_value(), "length");
  ASSERT_EQ(sent.events_size(), 1);
  EXPECT_EQ(sent.events(0).name(), "preempted");
  EXPECT_EQ(sent.events(0).attributes(0).value().int_value(), 1);
  EXPECT_EQ(sent.dropped_events_count(), 3u);
  EXPECT_FALSE(sent.has_status());
}

TEST(OtlpMessages, SayThatASpanHasFailed) {
  Span span = Example();
  span.failed = true;
  span.failure = "the model was lost";
  EXPECT_EQ(Sent(span).status().code(), trace::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(Sent(span).status().message(), "the model was lost");
}

TEST(OtlpMessages, HaveNoParentInTheFirstSpanOfATrace) {
  Span span = Example();
  span.parent_span_id.clear();
  EXPECT_EQ(Sent(span).parent_span_id(), "");
}

TEST(OtlpMessages, TakeTextsOfAnyBytesAndAnyLength) {
  const std::map<std::string, std::string> texts = {
      {"plain", "plain"},
      {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
      {"cut \xe2\x82", "cut ??"},
      {"\xff\xc0\xaf", "???"},
      {"\xed\xa0\x80", "???"},       // a surrogate
      {"\xf4\x90\x80\x80", "????"},  // beyond the last
      {std::string(5000, 'x'), std::string(1024, 'x')},
      {std::string(1023, 'x') + "\xc3\xa9", std::string(1023, 'x')}};  // never half a character
  for (const auto& [given, told] : texts) {
    Span span = Example();
    span.Add("text", given);
    EXPECT_EQ(Sent(span).attributes(0).value().string_value(), told);
    const auto request = ExportRequest({}, {span});
    trace::ResourceSpans read;
    EXPECT_TRUE(read.ParseFromString(request.resource_spans(0).SerializeAsString()));
  }
}

}  // namespace
}  // namespace sluice
