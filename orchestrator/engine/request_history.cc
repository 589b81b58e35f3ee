#include "orchestrator/engine/request_history.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/process/log.h"

namespace sluice {
namespace {

// From its arrival; "-" where there is no such moment.
std::string Milliseconds(const RequestTimes& times, const std::optional<SteadyTime>& moment) {
  if (!times.arrived.has_value() || !moment.has_value()) return "-";
  return absl::StrCat(absl::ToInt64Milliseconds(*moment - *times.arrived));
}

void LogEnd(const RequestLedger& ended) {
  const LogLevel level = ended.outcome == "internal" ? LogLevel::kWarning : LogLevel::kInfo;
  int64_t computed = 0;
  int32_t preemptions = 0;
  for (const SequenceLedger& sequence : ended.sequences) {
    computed += sequence.usage.computed_positions;
    preemptions += sequence.usage.preemptions;
  }
  Log(level, "orchestrator", "request-ended",
      {{"request_id", ended.name},
       {"trace_id", ended.trace_id.empty() ? "-" : ended.trace_id},
       {"tenant", ended.tenant},
       {"outcome", ended.outcome},
       {"reason", ended.detail},
       {"prompt_tokens", ended.num_prompt_tokens()},
       {"cached_tokens", ended.num_cached_prompt_tokens()},
       {"generated_tokens", ended.num_generated_tokens()},
       {"computed_positions", computed},
       {"preemptions", preemptions},
       {"queue_ms", Milliseconds(ended.times, ended.times.started)},
       {"first_token_ms", Milliseconds(ended.times, ended.times.first_token)},
       {"total_ms", Milliseconds(ended.times, ended.times.ended)}});
}

}  // namespace

void RequestHistory::Add(RequestLedger ended) {
  LogEnd(ended);
  if (ended_.size() == kMostKept) ended_.pop_front();
  ended_.push_back(std::move(ended));
}

void RequestHistory::Find(const LedgerQuery& query, std::vector<RequestLedger>& into) const {
  if (query.name.empty()) return;
  for (const RequestLedger& ended : ended_) {
    if (ended.name != query.name) continue;
    if (query.tenant.has_value() && ended.tenant != *query.tenant) continue;
    into.push_back(ended);
  }
}

}  // namespace sluice
