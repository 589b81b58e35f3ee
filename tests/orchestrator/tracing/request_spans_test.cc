// What a ledger becomes: spans that add up.
#include "orchestrator/tracing/request_spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);
const SteadyTime kSteadyNow = SteadyTime::FromStart(absl::Hours(3));

SteadyTime Ago(absl::Duration time) { return kSteadyNow + -time; }

// Asked 10 s ago, computed from 8 s ago on, with a first token 5 s ago, ended 1 s ago.
RequestLedger Ended() {
  auto begun = std::make_shared<Span>();
  begun->context = {"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1};
  begun->name = "chat storyteller";
  begun->kind = SpanKind::kServer;
  RequestLedger ledger;
  ledger.span = begun;
  ledger.tenant = "search";
  ledger.priority = 2;
  ledger.outcome = "ok";
  ledger.detail = "stop_token,length";
  ledger.times = {.arrived = Ago(absl::Seconds(10)),
                  .started = Ago(absl::Seconds(8)),
                  .first_token = Ago(absl::Seconds(5)),
                  .ended = Ago(absl::Seconds(1))};
  SequenceLedger& sequence = ledger.sequences.emplace_back();
  sequence.usage.prompt_tokens = 20;
  sequence.usage.generated_tokens = 7;
  sequence.usage.cached_prompt_tokens = 16;
  sequence.usage.computed_positions = 11;
  return ledger;
}

std::vector<Span> Spans(const RequestLedger& ledger) {
  return SpansOf(ledger, {.steady = kSteadyNow, .wall = kNow});
}

std::vector<std::string> Names(const std::vector<Span>& spans) {
  std::vector<std::string> names;
  for (const Span& span : spans) names.push_back(span.name);
  return names;
}

template <class Value>
std::optional<Value> Attribute(const Span& span, const std::string& key) {
  for (const SpanAttribute& attribute : span.attributes) {
    if (attribute.key == key) return std::get<Value>(attribute.value);
  }
  return std::nullopt;
}

TEST(RequestSpans, HaveAChildForEachPhaseAndTheseAddUp) {
  const std::vector<Span> spans = Spans(Ended());
  ASSERT_THAT(Names(spans), ElementsAre("chat storyteller", "queue", "prefill", "decode"));
  const Span& whole = spans[0];
  EXPECT_EQ(whole.start, kNow - absl::Seconds(10));
  EXPECT_EQ(whole.end, kNow - absl::Seconds(1));
  EXPECT_EQ(spans[1].start, whole.start);
  EXPECT_EQ(spans[1].end, kNow - absl::Seconds(8));
  EXPECT_EQ(spans[2].start, spans[1].end);
  EXPECT_EQ(spans[2].end, kNow - absl::Seconds(5));
  EXPECT_EQ(spans[3].start, spans[2].end);
  EXPECT_EQ(spans[3].end, whole.end);
  for (size_t i = 1; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].context.trace_id, whole.context.trace_id);
    EXPECT_EQ(spans[i].parent_span_id, whole.context.span_id);
    EXPECT_EQ(spans[i].context.flags, 1);
    for (size_t other = 0; other < i; ++other) {
      EXPECT_NE(spans[i].context.span_id, spans[other].context.span_id);
    }
  }
}

TEST(RequestSpans, SayWhomItWasForAndWhatItTook) {
  const Span whole = Spans(Ended()).front();
  EXPECT_EQ(Attribute<std::string>(whole, "sluice.tenant"), "search");
  EXPECT_EQ(Attribute<int64_t>(whole, "sluice.priority"), 2);
  EXPECT_EQ(Attribute<int64_t>(whole, "gen_ai.usage.input_tokens"), 20);
  EXPECT_EQ(Attribute<int64_t>(whole, "gen_ai.usage.output_tokens"), 7);
  EXPECT_EQ(Attribute<int64_t>(whole, "gen_ai.usage.cache_read.input_tokens"), 16);
  EXPECT_EQ(Attribute<int64_t>(whole, "sluice.computed_positions"), 11);
  EXPECT_EQ(Attribute<int64_t>(whole, "rpc.grpc.status_code"), 0);
  EXPECT_THAT(Attribute<std::vector<std::string>>(whole, "gen_ai.response.finish_reasons").value(),
              ElementsAre("stop_token", "length"));
  EXPECT_FALSE(whole.failed);
}

TEST(RequestSpans, HaveNoPhaseThatNeverCame) {
  RequestLedger ledger = Ended();
  ledger.outcome = "cancelled";
  ledger.times.first_token.reset();
  const std::vector<Span> computing = Spans(ledger);
  ASSERT_THAT(Names(computing), ElementsAre("chat storyteller", "queue", "prefill"));
  EXPECT_EQ(computing[2].end, computing[0].end);
  ledger.times.started.reset();
  const std::vector<Span> waiting = Spans(ledger);
  ASSERT_THAT(Names(waiting), ElementsAre("chat storyteller", "queue"));
  EXPECT_EQ(waiting[1].end, waiting[0].end);
  ledger.times = {};
  EXPECT_THAT(Names(Spans(ledger)), ElementsAre("chat storyteller"));
}

TEST(RequestSpans, OfScoringHaveOnePhaseOfWork) {
  RequestLedger ledger = Ended();
  ledger.scores = true;
  const std::vector<Span> spans = Spans(ledger);
  ASSERT_THAT(Names(spans), ElementsAre("chat storyteller", "queue", "score"));
  EXPECT_EQ(spans[2].start, spans[1].end);
  EXPECT_EQ(spans[2].end, spans[0].end);
}

TEST(RequestSpans, ShowWhatInterruptedIt) {
  using Kind = RequestEvent::Kind;
  RequestLedger ledger = Ended();
  ledger.events = {{Kind::kReplicaLost, Ago(absl::Seconds(4))},
                   {Kind::kPreempted, Ago(absl::Seconds(4))},
                   {Kind::kReplicaLost, Ago(absl::Seconds(3.5))},  // before it was back
                   {Kind::kReplicaBack, Ago(absl::Seconds(3))},
                   {Kind::kReplicaLost, Ago(absl::Seconds(2))}};
  ledger.num_dropped_events = 9;
  const std::vector<Span> spans = Spans(ledger);
  ASSERT_THAT(Names(spans), ElementsAre("chat storyteller", "queue", "prefill", "decode",
                                        "recovery", "recovery"));
  EXPECT_EQ(spans[4].start, kNow - absl::Seconds(4));
  EXPECT_EQ(spans[4].end, kNow - absl::Seconds(3));
  EXPECT_EQ(spans[5].start, kNow - absl::Seconds(2));
  EXPECT_EQ(spans[5].end, spans[0].end) << "it never came back";
  ASSERT_EQ(spans[0].events.size(), 1u);
  EXPECT_EQ(spans[0].events[0].name, "preempted");
  EXPECT_EQ(spans[0].events[0].time, kNow - absl::Seconds(4));
  EXPECT_EQ(spans[0].num_dropped_events, 9u);
}

TEST(RequestSpans, FailByTheServersFaultAlone) {
  RequestLedger ledger = Ended();
  ledger.detail = "the model was lost";
  ledger.outcome = "internal";
  const Span internal = Spans(ledger).front();
  EXPECT_TRUE(internal.failed);
  EXPECT_EQ(internal.failure, "the model was lost");
  EXPECT_EQ(Attribute<std::string>(internal, "error.type"), "INTERNAL");
  EXPECT_EQ(Attribute<int64_t>(internal, "rpc.grpc.status_code"), 13);
  for (const char* outcome : {"cancelled", "resource_exhausted", "invalid_argument"}) {
    ledger.outcome = outcome;
    const Span span = Spans(ledger).front();
    EXPECT_FALSE(span.failed) << outcome;
    EXPECT_TRUE(Attribute<std::string>(span, "error.type").has_value());
    EXPECT_THAT(span.failure, IsEmpty()) << "what a caller wrote may be in it";
  }
}

TEST(RequestSpans, EndWhatNeverCameToTheEngine) {
  Span begun = *Ended().span;
  begun.start = kNow - absl::Milliseconds(3);
  const Span ended = EndedSpan(begun, absl::UnauthenticatedError("no token"), kNow);
  EXPECT_EQ(ended.start, begun.start);
  EXPECT_EQ(ended.end, kNow);
  EXPECT_EQ(Attribute<std::string>(ended, "error.type"), "UNAUTHENTICATED");
  EXPECT_EQ(EndedSpan(begun, absl::OkStatus(), begun.start - absl::Seconds(1)).end, begun.start)
      << "a clock was put back";
}

}  // namespace
}  // namespace sluice
