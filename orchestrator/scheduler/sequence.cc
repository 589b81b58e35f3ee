#include "orchestrator/scheduler/sequence.h"

#include <algorithm>

#include "orchestrator/scheduler/sequence_state.h"

namespace sluice {
namespace {

bool Contains(const std::vector<TokenId>& tokens, TokenId token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

}  // namespace

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kFailed:
      return "failed";
  }
  return "unknown";
}

RecomputedPositions& RecomputedPositions::operator+=(const RecomputedPositions& other) {
  after_preemption += other.after_preemption;
  after_loss += other.after_loss;
  after_growth += other.after_growth;
  after_pause += other.after_pause;
  return *this;
}

std::optional<FinishReason> AlreadyFinished(const SequenceSpec& spec) {
  const std::vector<TokenId>& resumed = spec.resumed_tokens;
  if (resumed.empty()) return std::nullopt;
  if (Contains(spec.stop_tokens, resumed.back())) return FinishReason::kStop;
  if (static_cast<int64_t>(resumed.size()) >= spec.max_new_tokens) return FinishReason::kLength;
  return std::nullopt;
}

SequenceState::SequenceState(SequenceSpec given, const QueuePosition& position)
    : spec(std::move(given)),
      position(position),
      stop_tokens(spec.stop_tokens.begin(), spec.stop_tokens.end()) {
  usage.prompt_tokens = static_cast<int32_t>(spec.prompt.size());
  usage.generated_tokens = static_cast<int32_t>(spec.resumed_tokens.size());
  num_scored = spec.num_positions_scored_by_sibling;
  tokens = std::move(spec.prompt);
  tokens.insert(tokens.end(), spec.resumed_tokens.begin(), spec.resumed_tokens.end());
  spec.prompt.clear();
  spec.resumed_tokens.clear();
}

void SequenceState::AddRowsFor(int32_t first, int32_t num_positions, Rows& rows) const {
  const int32_t end = first + num_positions;
  if (spec.score_prompt) {
    for (int32_t p = std::max(first, num_scored); p < std::min(end, num_prompt() - 1); ++p) {
      rows.push_back({.offset = p - first, .kind = RowKind::kScore, .target = tokens[p + 1]});
    }
  }
  if (spec.pooled != PooledRows::kNone) AddPooledRows(first, num_positions, rows);
  if (end == length() && spec.max_new_tokens > 0) {
    rows.push_back({.offset = end - 1 - first, .kind = RowKind::kSample});
  }
}

void SequenceState::AddPooledRows(int32_t first, int32_t num_positions, Rows& rows) const {
  switch (spec.pooled) {
    case PooledRows::kNone:
      break;
    case PooledRows::kFirst:
      if (first == 0) rows.push_back({.offset = 0, .kind = RowKind::kPool});
      break;
    case PooledRows::kLast:
      if (first + num_positions == num_prompt())
        rows.push_back({.offset = num_positions - 1, .kind = RowKind::kPool});
      break;
    case PooledRows::kAll:
      for (int32_t i = 0; i < num_positions; ++i) {
        rows.push_back({.offset = i, .kind = RowKind::kPool});
      }
      break;
  }
}

std::optional<FinishReason> SequenceState::ReasonToEnd() const {
  if (usage.generated_tokens > 0 && !stop_tokens.empty() && stop_tokens.contains(tokens.back())) {
    return FinishReason::kStop;
  }
  if (usage.generated_tokens >= spec.max_new_tokens && num_computed >= num_prompt()) {
    return FinishReason::kLength;
  }
  return std::nullopt;
}

}  // namespace sluice
