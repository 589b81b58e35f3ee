// Reads traces of requests that others, or this orchestrator, have written down:
//
//   Mooncake  JSON lines {"timestamp": ms, "input_length": N, "output_length": M, "hash_ids": [..]};
//             each id names `tokens_per_hash` tokens of the prompt, the last one what is left
//   Azure     CSV with the header TIMESTAMP,ContextTokens,GeneratedTokens; times of day, in UTC
//   log       the orchestrator's log, as text or JSON: its lines `request-ended`. What was found in
//             the prefix cache is taken for the beginning of a text that the tenant's requests share.
//
// The form is recognized by the first line that is not empty.
#pragma once

#include <cstdint>
#include <istream>
#include <string>

#include "absl/status/statusor.h"
#include "orchestrator/capacity/trace.h"

namespace sluice {

struct TraceOptions {
  int32_t tokens_per_hash = 512;  // 1 to kMostTracedTokens
  // The trace is played so many times as fast: 2 doubles the rate of arrivals. > 0.
  double speed = 1;
  int64_t max_requests = int64_t{1} << 31;  // the rest of the source is not read; >= 1
};

// Requests sorted by arrival, the first at 0. INVALID_ARGUMENT "SOURCE:LINE: ..." naming field, value
// and what is accepted where a line is malformed; "SOURCE: ..." where there is no request in it.
absl::StatusOr<Trace> ReadTrace(std::istream& in, const std::string& source,
                                const TraceOptions& options);

// The same of a file; also what the system says against opening it.
absl::StatusOr<Trace> ReadTraceFile(const std::string& path, const TraceOptions& options);

}  // namespace sluice
