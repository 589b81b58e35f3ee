// Which drafts a step computes beside its decodes. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "orchestrator/scheduler/block_budget.h"
#include "orchestrator/scheduler/scheduler_options.h"

namespace sluice {

class DraftPlanner {
 public:
  // Borrows both.
  DraftPlanner(const SchedulerOptions& options, const BlockBudget& budget)
      : options_(options), budget_(budget) {}

  // Asks for the drafts of these decodes: one entry for each of them, or none at all where nothing
  // is drafted. No draft has a stop token, nor more tokens than its sequence may still have.
  std::vector<Tokens> Drafts(absl::Span<SequenceState* const> decodes, const DraftRoom& room) const;

 private:
  int32_t MostDrafts(const SequenceState& sequence) const;

  const SchedulerOptions& options_;
  const BlockBudget& budget_;
};

}  // namespace sluice
