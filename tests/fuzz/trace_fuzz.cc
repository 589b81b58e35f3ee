// Fuzzes the reading of traces: a trace as it is promised, or a fault that names source and line.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "kernels/check.h"
#include "orchestrator/capacity/trace_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  const absl::StatusOr<sluice::Trace> trace =
      sluice::ReadTrace(in, "trace", {.tokens_per_hash = 16, .max_requests = 1000});
  if (!trace.ok()) {
    SLUICE_CHECK(absl::StartsWith(trace.status().message(), "trace:"));
    return 0;
  }
  SLUICE_CHECK(!trace->requests.empty());
  double before = 0;
  int64_t tokens = 0;
  for (size_t i = 0; i < trace->requests.size(); ++i) {
    const sluice::TracedRequest& request = trace->requests[i];
    SLUICE_CHECK(request.arrival >= before);
    before = request.arrival;
    SLUICE_CHECK(request.prompt_tokens >= 1 && request.prompt_tokens <= sluice::kMostTracedTokens);
    SLUICE_CHECK(request.new_tokens >= 1 && request.new_tokens <= sluice::kMostTracedTokens);
    SLUICE_CHECK(request.tenant < trace->tenants.size());
    SLUICE_CHECK(size_t{request.first_run} + request.num_runs <= trace->runs.size());
    tokens += request.prompt_tokens;
    if (tokens > 1 << 16) continue;
    SLUICE_CHECK(static_cast<int64_t>(sluice::PromptOf(*trace, i).size()) == request.prompt_tokens);
  }
  return 0;
}
