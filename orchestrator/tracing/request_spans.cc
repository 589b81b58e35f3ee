#include "orchestrator/tracing/request_spans.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "services/telemetry/tracer.h"

namespace sluice {
namespace {

constexpr int kNumCodes = 17;  // of gRPC's statuses

// Of an outcome such as "resource_exhausted".
absl::StatusCode CodeOf(const std::string& outcome) {
  for (int code = 0; code < kNumCodes; ++code) {
    const auto found = static_cast<absl::StatusCode>(code);
    if (absl::AsciiStrToLower(absl::StatusCodeToString(found)) == outcome) return found;
  }
  return absl::StatusCode::kUnknown;
}

// As OpenTelemetry's conventions for servers of gRPC have it: what a caller did wrong is no error of
// the server's.
bool IsServersFault(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

void DescribeEnd(absl::StatusCode code, absl::string_view message, Span& span) {
  span.Add("rpc.grpc.status_code", static_cast<int64_t>(code));
  if (code == absl::StatusCode::kOk) return;
  span.Add("error.type", absl::StatusCodeToString(code));
  if (!IsServersFault(code)) return;
  span.failed = true;
  span.failure = std::string(message);
}

void DescribeUsage(const RequestLedger& ended, Span& span) {
  SequenceUsage all;
  for (const SequenceLedger& sequence : ended.sequences) {
    all.computed_positions += sequence.usage.computed_positions;
    all.preemptions += sequence.usage.preemptions;
    all.recomputed += sequence.usage.recomputed;
    all.drafted_tokens += sequence.usage.drafted_tokens;
    all.accepted_drafts += sequence.usage.accepted_drafts;
  }
  span.Add("gen_ai.usage.input_tokens", int64_t{ended.num_prompt_tokens()});
  span.Add("gen_ai.usage.output_tokens", ended.num_generated_tokens());
  span.Add("gen_ai.usage.cache_read.input_tokens", int64_t{ended.num_cached_prompt_tokens()});
  span.Add("sluice.computed_positions", all.computed_positions);
  span.Add("sluice.recomputed_positions",
           all.recomputed.after_preemption + all.recomputed.after_loss +
               all.recomputed.after_growth + all.recomputed.after_pause);
  span.Add("sluice.preemptions", int64_t{all.preemptions});
  if (all.drafted_tokens == 0) return;
  span.Add("sluice.drafted_tokens", all.drafted_tokens);
  span.Add("sluice.accepted_draft_tokens", all.accepted_drafts);
}

class Phases {
 public:
  Phases(const RequestLedger& ended, const ClockReading& now) : ended_(ended), now_(now) {}

  absl::Time Wall(SteadyTime moment) const { return now_.wall - (now_.steady - moment); }
  absl::Time End() const {
    return ended_.times.ended.has_value() ? Wall(*ended_.times.ended) : now_.wall;
  }

  void AddTo(std::vector<Span>& spans) const {
    const RequestTimes& times = ended_.times;
    if (!times.arrived.has_value()) return;
    if (ended_.scores) {
      return Add({{"queue", times.arrived}, {"score", times.started}}, spans);
    }
    Add({{"queue", times.arrived}, {"prefill", times.started}, {"decode", times.first_token}},
        spans);
  }

  void AddRecoveriesTo(std::vector<Span>& spans) const {
    std::optional<SteadyTime> lost;
    for (const RequestEvent& event : ended_.events) {
      if (event.kind == RequestEvent::Kind::kReplicaLost && !lost.has_value()) lost = event.time;
      if (event.kind != RequestEvent::Kind::kReplicaBack || !lost.has_value()) continue;
      spans.push_back(ChildOf(spans.front(), "recovery", Wall(*lost), Wall(event.time)));
      lost.reset();
    }
    if (lost.has_value()) {
      spans.push_back(ChildOf(spans.front(), "recovery", Wall(*lost), End()));
    }
  }

 private:
  struct Phase {
    const char* name;
    std::optional<SteadyTime> begins;
  };

  // Each lasts until the next one that came.
  void Add(const std::vector<Phase>& phases, std::vector<Span>& spans) const {
    for (size_t i = 0; i < phases.size(); ++i) {
      if (!phases[i].begins.has_value()) return;
      const bool last = i + 1 == phases.size() || !phases[i + 1].begins.has_value();
      const absl::Time end = last ? End() : Wall(*phases[i + 1].begins);
      spans.push_back(ChildOf(spans.front(), phases[i].name, Wall(*phases[i].begins), end));
    }
  }

  const RequestLedger& ended_;
  const ClockReading& now_;
};

void AddPreemptions(const RequestLedger& ended, const Phases& phases, Span& whole) {
  for (const RequestEvent& event : ended.events) {
    if (event.kind != RequestEvent::Kind::kPreempted) continue;
    whole.events.push_back(
        {.time = phases.Wall(event.time), .name = "preempted", .attributes = {}});
  }
  whole.num_dropped_events = ended.num_dropped_events;
}

}  // namespace

std::vector<Span> SpansOf(const RequestLedger& ended, const ClockReading& now) {
  const Phases phases(ended, now);
  std::vector<Span> spans = {*ended.span};
  Span& whole = spans.front();
  if (ended.times.arrived.has_value()) whole.start = phases.Wall(*ended.times.arrived);
  whole.end = phases.End();
  whole.Add("sluice.tenant", ended.tenant);
  whole.Add("sluice.priority", int64_t{ended.priority});
  const absl::StatusCode code = CodeOf(ended.outcome);
  if (code == absl::StatusCode::kOk) {
    whole.Add("gen_ai.response.finish_reasons",
              std::vector<std::string>(absl::StrSplit(ended.detail, ',', absl::SkipEmpty())));
  }
  DescribeUsage(ended, whole);
  DescribeEnd(code, ended.detail, whole);
  AddPreemptions(ended, phases, whole);
  phases.AddTo(spans);
  phases.AddRecoveriesTo(spans);
  return spans;
}

Span EndedSpan(Span begun, const absl::Status& status, absl::Time now) {
  begun.end = std::max(begun.start, now);
  DescribeEnd(status.code(), status.message(), begun);
  return begun;
}

}  // namespace sluice
