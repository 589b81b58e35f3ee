// The distributed trace that a call belongs to (W3C Trace Context), in the metadata or header
// `traceparent`: "00-{trace id}-{span id}-{flags}", in lower-case hexadecimal; with it, in
// `tracestate`, entries of tracing systems: "a=1,b=2". Pure functions, but for the random numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

inline constexpr char kTraceParentKey[] = "traceparent";
inline constexpr char kTraceStateKey[] = "tracestate";

struct TraceContext {
  std::string trace_id;  // 32 digits, not all of them 0
  std::string span_id;   // 16 digits, not all of them 0: of the caller's part
  uint8_t flags = 0;     // bit 0: the caller records it
  std::string state;     // `tracestate`, for others; empty: none

  bool sampled() const { return (flags & 1) != 0; }

  std::string ToTraceParent() const;

  // For what happens on behalf of this one: the same trace, a span of its own.
  TraceContext Child() const;

  // The first span of a trace of its own; not sampled.
  static TraceContext NewTrace();

  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// Nothing where it is not what the recommendation describes: then it counts as not sent. Of
// versions after 00, what 00 has.
std::optional<TraceContext> ParseTraceParent(absl::string_view text);

// The same with what came as `tracestate`, where it is what the recommendation describes: up to 32
// members, no key twice. Otherwise it counts as not sent, and the trace goes on without. Headers of
// that name that came one by one are one list, joined by commas.
std::optional<TraceContext> ParseTraceContext(absl::string_view trace_parent,
                                              absl::string_view trace_state);

}  // namespace sluice
