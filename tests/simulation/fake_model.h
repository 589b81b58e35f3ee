// The model that simulated stages compute: hashes in place of tensors. The row of a position after
// a stage depends on every position before it, through what the stage's blocks hold on every rank,
// and on nothing else, so that a wrong, stale or foreign slot shows in every token that follows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "orchestrator/scheduler/sequence.h"

namespace sluice::simulation {

inline constexpr int kVocabulary = 50;

inline uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 29);
}

inline uint64_t EmbeddedRow(TokenId token, int position) {
  return Mix(static_cast<uint64_t>(token) + 1, static_cast<uint64_t>(position) + 1);
}

// What a rank keeps of a row.
inline uint64_t SlotOf(uint64_t row, int rank) { return Mix(row, 1000 + rank); }

// A stage's row out of what each rank's slots, folded in order of positions, come to.
inline uint64_t StageRow(int stage, const std::vector<uint64_t>& folds) {
  uint64_t row = 100 + stage;
  for (const uint64_t fold : folds) row = Mix(row, fold);
  return row;
}

inline TokenId ChosenToken(uint64_t row, uint64_t seed, int sequence_index) {
  return static_cast<TokenId>(Mix(Mix(row, seed), sequence_index) % kVocabulary);
}

inline float LogprobOf(uint64_t row, TokenId token) {
  return -static_cast<float>(Mix(row, static_cast<uint64_t>(token) + 7) % 1000) / 100;
}

// The tokens with the largest log-probabilities, falling, ties by lower id.
inline std::vector<TokenId> MostProbable(uint64_t row, int count) {
  std::vector<TokenId> tokens(kVocabulary);
  std::iota(tokens.begin(), tokens.end(), 0);
  std::stable_sort(tokens.begin(), tokens.end(),
                   [row](TokenId a, TokenId b) { return LogprobOf(row, a) > LogprobOf(row, b); });
  tokens.resize(std::min(count, kVocabulary));
  return tokens;
}

// The same model for one sequence alone.
class SoloModel {
 public:
  SoloModel(int num_stages, int num_ranks)
      : num_ranks_(num_ranks), folds_(num_stages, std::vector<uint64_t>(num_ranks)) {}

  // Takes the next token; the row that the sampler gets for it.
  uint64_t Append(TokenId token) {
    uint64_t row = EmbeddedRow(token, position_++);
    for (size_t stage = 0; stage < folds_.size(); ++stage) {
      for (int rank = 0; rank < num_ranks_; ++rank) {
        folds_[stage][rank] = Mix(folds_[stage][rank], SlotOf(row, rank));
      }
      row = StageRow(static_cast<int>(stage), folds_[stage]);
    }
    return row;
  }

 private:
  int num_ranks_;
  int position_ = 0;
  std::vector<std::vector<uint64_t>> folds_;  // [stage][rank]
};

}  // namespace sluice::simulation
