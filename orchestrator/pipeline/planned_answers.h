// Holds the sampler's answers against what it was asked: whatever it sends, a step's results name
// tokens of the vocabulary, in the order and number of the plan's rows. Lives as long as a wiring, on
// its event loop.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/pipeline/replica.h"
#include "orchestrator/pipeline/rows.h"
#include "orchestrator/scheduler/step.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

class PlannedAnswers {
 public:
  // Tokens are in [0, vocabulary_size).
  explicit PlannedAnswers(int32_t vocabulary_size) : vocabulary_size_(vocabulary_size) {}

  // The step was sent.
  void Add(StepId step, absl::Span<const RowRequest> rows);

  // INTERNAL where the answer is not one to the oldest step that has none, or a row of it contradicts
  // what was asked: a token outside the vocabulary, another token than the one to score, or none yet,
  // more alternatives than were asked for, alternatives out of order, an embedding of the wrong row. The sampler is broken then. A
  // row whose log-probabilities are not numbers, or above 0, comes back as one that failed.
  absl::StatusOr<StepExecuted> Take(const v1::StageExecuted& executed);

 private:
  struct PlannedRow {
    TokenId score_target = 0;
    bool scores = false;
    bool pools = false;      // it is part of an embedding
    bool ends_text = false;  // and its last row
    bool perturbed = false;
    int32_t num_logprobs = 0;
    int32_t max_forced = 0;
  };
  struct PlannedStep {
    StepId id = 0;
    std::vector<PlannedRow> rows;
  };

  absl::Status CheckRow(const PlannedRow& planned, RowResult& row) const;
  absl::Status CheckTop(const PlannedRow& planned, const RowResult& row) const;
  absl::Status CheckToken(TokenId token) const;

  const int32_t vocabulary_size_;
  std::deque<PlannedStep> steps_;  // oldest first
  std::vector<PlannedRow> spare_;  // memory of a step that was answered
};

}  // namespace sluice
