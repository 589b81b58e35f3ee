// The sequences that a sampler has been told of in one epoch. A row of a plan either needs none of
// this, or names a sequence in the table. Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/sampler/sequence.h"
#include "sluice/v1/sampler.pb.h"

namespace sluice {

class SequenceTable {
 public:
  // Borrows the store, which knows the constraints of sequences.
  SequenceTable(int64_t vocabulary_size, ConstraintStore* constraints)
      : vocabulary_size_(vocabulary_size), constraints_(constraints) {}

  // Takes up what a plan says of sequences: the new ones, and those that are over. Waits for
  // constraints that are being compiled.
  // INVALID_ARGUMENT where a token or an option is out of range, or `position` is not where the
  // sequence's tokens end.
  absl::Status Update(const v1::SamplerExecute& plan);

  // The sequence whose token at `position` is to be chosen, its past cut or known up to there.
  // FAILED_PRECONDITION where the table lacks it or its tokens: the epoch is lost, and the next
  // one is told everything.
  absl::StatusOr<SamplerSequence*> Find(uint64_t id, int32_t position);

  // The same for a row behind a draft: its past goes on with `draft`, the token before `position`,
  // which is behind all that it has. INVALID_ARGUMENT where that is no token.
  absl::StatusOr<SamplerSequence*> Assume(uint64_t id, int32_t position, int32_t draft);

  size_t size() const { return sequences_.size(); }

 private:
  absl::Status Add(const v1::SamplerSequence& told);

  const int64_t vocabulary_size_;
  ConstraintStore* const constraints_;
  absl::flat_hash_map<uint64_t, SamplerSequence> sequences_;
};

}  // namespace sluice
