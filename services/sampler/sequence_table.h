// The sequences that the sampler received in one epoch. A row of a plan either needs no sequence
// state, or names a sequence in this table. Not thread-safe.
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

  // Takes up what a plan says of sequences: the new ones, and those that are over. Where a token or
  // an option of one is out of range, its rows say so.
  void Update(const v1::SamplerExecute& plan);

  // The sequence whose token at `position` is to be chosen, its past cut or known up to there.
  // INTERNAL where the table lacks it or its tokens; INVALID_ARGUMENT where it was told wrongly;
  // UNAVAILABLE where an earlier row of it has no token yet.
  absl::StatusOr<SamplerSequence*> Find(uint64_t id, int32_t position);

  // The same for a row behind a draft: its past goes on with `draft`, the token before `position`,
  // which is behind all that it has. INVALID_ARGUMENT also where that is no token.
  absl::StatusOr<SamplerSequence*> Assume(uint64_t id, int32_t position, int32_t draft);

  size_t size() const { return sequences_.size(); }

 private:
  absl::StatusOr<SamplerSequence> Make(const v1::SamplerSequence& told) const;

  const int64_t vocabulary_size_;
  ConstraintStore* const constraints_;
  absl::flat_hash_map<uint64_t, absl::StatusOr<SamplerSequence>> sequences_;
};

}  // namespace sluice
