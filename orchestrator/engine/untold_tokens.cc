#include "orchestrator/engine/untold_tokens.h"

#include <variant>

#include "kernels/sampling_options/sampling_options.h"

namespace sluice {
namespace {

// The tokens of the row's sequence: those that its request has been told of, and those of the steps that
// were committed since.
std::vector<TokenId> TokensWith(const std::vector<CommittedStep>& committed,
                                const RowRequest& row) {
  std::vector<TokenId> tokens(row.tokens.begin(), row.tokens.end());
  for (const CommittedStep& step : committed) {
    for (const AcceptedRow& accepted : step.outcome.rows) {
      const bool follows = accepted.sequence == row.sequence && accepted.kind == RowKind::kSample &&
                           accepted.position == std::ssize(tokens);
      if (follows) tokens.push_back(accepted.token);
    }
  }
  return tokens;
}

// A sequence that gives up its blocks and comes back to them before its request is told of its last
// token: the sampler forgets it in between, and then has to hear of all tokens.
bool LacksTokens(const Segment& segment, const RowRequest& row) {
  if (segment.chosen_by.has_value() || std::ssize(row.tokens) >= row.position) return false;
  const auto* options = std::get_if<const SamplingOptions*>(&row.task);
  if (options == nullptr || row.draft.has_value()) return false;
  return row.constraint != nullptr || HasSequenceParameters(**options);
}

}  // namespace

void CompleteTokens(const Step& step, const std::vector<CommittedStep>& committed,
                    std::vector<RowRequest>& rows, std::deque<std::vector<TokenId>>& completed) {
  completed.clear();
  if (committed.empty()) return;
  auto row = rows.begin();
  for (const Segment& segment : step.segments) {
    for (size_t i = 0; i < segment.rows.size(); ++i, ++row) {
      if (!LacksTokens(segment, *row)) continue;
      row->tokens = completed.emplace_back(TokensWith(committed, *row));
    }
  }
}

}  // namespace sluice
