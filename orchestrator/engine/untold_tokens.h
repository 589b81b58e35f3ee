// Tokens that were committed and that requests have not been told of yet, for rows of the sampler that
// need all tokens of their sequence.
#pragma once

#include <deque>
#include <vector>

#include "orchestrator/pipeline/rows.h"
#include "orchestrator/scheduler/step.h"

namespace sluice {

// What a step brought, committed but not yet told to its requests.
struct CommittedStep {
  StepOutcome outcome;
  std::vector<RowResult> rows;
};

// Completes the tokens of the step's rows that have to name all of them; `completed` keeps them.
void CompleteTokens(const Step& step, const std::vector<CommittedStep>& committed,
                    std::vector<RowRequest>& rows, std::deque<std::vector<TokenId>>& completed);

}  // namespace sluice
