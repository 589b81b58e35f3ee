// Builds the sampler's messages: the rows of every step, and those parts of their sequences that
// the sampler does not have yet. Options that look at no more than a row go with the first row of a
// sequence; those that look at more (SamplingParameter::per_sequence), and constraints, with all of
// its tokens. From then on the sampler counts the tokens that it chooses by itself, and a row is
// its sequence and position.
//
// Remembers which sequences were sent to one incarnation of the sampler; the next one gets an
// object of its own. A sequence that gave up its blocks, or had no row for kForgottenAfter steps,
// is dropped by the sampler, too; if it comes back it is sent again. Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "orchestrator/pipeline/rows.h"
#include "orchestrator/scheduler/step.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

class SamplerPlans {
 public:
  static constexpr uint64_t kForgottenAfter = 256;

  // Makes `request` the message of a step; what it was is dropped, and its memory is used again.
  // `rows` are those of the step, in the order of its segments and their rows. A row of a sequence
  // that is not known needs its tokens.
  void SetMessage(uint64_t epoch, const Step& step, absl::Span<const RowRequest> rows,
                  v1::StageRunRequest& request);

 private:
  struct Sent {
    bool per_sequence = false;  // by a SamplerSequence
    uint64_t last_message = 0;  // with a row of the sequence
  };

  void AddRow(const RowRequest& row, v1::SamplerExecute& execute);
  void AddSequence(const RowRequest& row, const SamplingOptions& options,
                   v1::SamplerExecute& execute);
  // Drops those that gave up their blocks, because they are over or have to wait.
  void DropEnded(const Step& step, v1::SamplerExecute& execute);
  // Drops what has had no row for long.
  void Sweep(v1::SamplerExecute& execute);

  uint64_t num_messages_ = 0;
  bool vocabulary_sent_ = false;
  absl::flat_hash_map<SequenceId, Sent> sent_;
};

}  // namespace sluice
