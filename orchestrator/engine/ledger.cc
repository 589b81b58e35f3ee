#include "orchestrator/engine/ledger.h"

#include <algorithm>

namespace sluice {

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
