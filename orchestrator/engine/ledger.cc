#include "orchestrator/engine/ledger.h"

#include <algorithm>

#include "orchestrator/engine/request.h"

namespace sluice {

RequestLedger LedgerOf(const EngineRequest& request) {
  RequestLedger ledger;
  ledger.name = request.name;
  ledger.trace_id = request.trace_id;
  ledger.span = request.span;
  ledger.scores = request.score || request.pooled != PooledRows::kNone;
  ledger.tenant = request.tenant;
  ledger.priority = request.priority;
  ledger.times.arrived = request.arrived;
  return ledger;
}

int32_t RequestLedger::num_prompt_tokens() const {
  return sequences.empty() ? 0 : sequences.front().usage.prompt_tokens;
}

int64_t RequestLedger::num_generated_tokens() const {
  int64_t sum = 0;
  for (const SequenceLedger& sequence : sequences) sum += sequence.usage.generated_tokens;
  return sum;
}

int32_t RequestLedger::num_cached_prompt_tokens() const {
  int32_t most = 0;
  for (const SequenceLedger& sequence : sequences) {
    most = std::max(most, sequence.usage.cached_prompt_tokens);
  }
  return most;
}

}  // namespace sluice
