// Trace sampling, by the names of OpenTelemetry's OTEL_TRACES_SAMPLER. Pure functions.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/common/trace_context.h"

namespace sluice {

struct TraceSampler {
  bool follows_caller = true;  // where there is one: it has decided
  double ratio = 1;            // 0 to 1: of all other traces, the part that is recorded

  // Whether to record `trace`, a part of `caller`'s where that is given.
  bool Samples(const std::optional<TraceContext>& caller, const TraceContext& trace) const;

  friend bool operator==(const TraceSampler&, const TraceSampler&) = default;
};

// Whether so large a part of all traces, chosen by their ids, has this one: the same answer in
// every program with the same ratio, and with any larger one.
bool IsSampled(const TraceContext& trace, double ratio);

// always_on, always_off, traceidratio, or one of them with parentbased_ before it. `argument` is
// the ratio of the third; empty: 1. INVALID_ARGUMENT for other names and for no ratio.
absl::StatusOr<TraceSampler> ParseTraceSampler(absl::string_view name, absl::string_view argument);

}  // namespace sluice
