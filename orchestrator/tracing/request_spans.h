// A request's ledger as spans: one for the request, a child for each phase, one for each time that
// the replica was lost under it, and an event for each preemption. Nothing of what was written is in
// them. Pure functions.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "orchestrator/engine/ledger.h"
#include "services/common/steady_time.h"
#include "services/telemetry/span.h"

namespace sluice {

// One moment on both clocks: ledgers have the first, collectors want the second.
struct ClockReading {
  SteadyTime steady;
  absl::Time wall;
};

// The request's span first. Phases follow each other without a gap: "queue" until some of it was sent
// to be computed, "prefill" until its first token, "decode" until its end; of one that scores,
// "queue" and "score". A phase that never came is not there. REQUIRES: ended.span is not null.
std::vector<Span> SpansOf(const RequestLedger& ended, const ClockReading& now);

// The span of a call of which the engine knows nothing, or not all.
Span EndedSpan(Span begun, const absl::Status& status, absl::Time now);

}  // namespace sluice
