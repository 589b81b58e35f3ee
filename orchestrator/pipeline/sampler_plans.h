// What the sampler is sent: the rows of every step, and of sequences with a constraint or options
// that look at more than a row (SamplingParameter::per_sequence) what the sampler does not know yet.
//
// Remembers which sequences one incarnation of the sampler has been told of; the next one gets an
// object of its own. From then on the sampler counts the tokens that it chooses by itself. A
// sequence that gave up its blocks, or had no row for kForgottenAfter steps, is dropped by the
// sampler, too; one that comes back is told again. Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "orchestrator/pipeline/rows.h"
#include "orchestrator/scheduler/step.h"
#include "sluice/v1/sampler.pb.h"

namespace sluice {

class SamplerPlans {
 public:
  static constexpr uint64_t kForgottenAfter = 256;

  // `rows` are those of the step, in the order of its segments and their rows. A row of a sequence
  // that is not known needs its tokens.
  v1::SamplerRunRequest Message(uint64_t epoch, const Step& step,
                                absl::Span<const RowRequest> rows);

 private:
  // What the options of a sequence, which stay the same for its life, come to. Making the message
  // takes several times as long as copying it.
  struct KnownOptions {
    v1::SamplingOptions message;
    bool per_sequence = false;  // they look at more than the row
    uint64_t last_message = 0;  // with a row of the sequence
  };

  void AddRow(const RowRequest& row, v1::SamplerExecute& execute);
  // Tells of the row's sequence unless that has been done; whether it has.
  bool AddSequence(const RowRequest& row, const SamplingOptions& options,
                   v1::SamplerExecute& execute);
  // Drops those that gave up their blocks, because they are over or have to wait.
  void DropEnded(const Step& step, v1::SamplerExecute& execute);
  const KnownOptions& OptionsOf(SequenceId sequence, const SamplingOptions& options);
  // Drops what has had no row for long.
  void Sweep(v1::SamplerExecute& execute);

  uint64_t num_messages_ = 0;
  bool vocabulary_told_ = false;
  absl::flat_hash_map<SequenceId, uint64_t> told_;  // and the last message with a row of each
  absl::flat_hash_map<SequenceId, KnownOptions> options_;
};

}  // namespace sluice
