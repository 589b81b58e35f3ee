// Continuations of a token sequence that would repeat something that it already holds. Both classes
// follow a sequence as it grows and is cut, so that a step costs what its new tokens cost, however
// long the sequence is. `tokens` is always the whole sequence: with the token that was appended, or
// with those that are about to be cut. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"

namespace sluice {

// The tokens that would complete an n-gram which the sequence already has (Paulus, Xiong and Socher
// 2018), as Hugging Face's no_repeat_ngram_size. Contexts are compared by 61-bit hashes.
class NgramEnds {
 public:
  explicit NgramEnds(int32_t n);  // n >= 1

  void OnAppend(absl::Span<const int32_t> tokens);
  void OnTruncate(absl::Span<const int32_t> tokens, int32_t size);

  // Each once, in the order of first occurrence.
  absl::Span<const int32_t> Find() const;

 private:
  size_t size() const { return prefix_hashes_.size() - 1; }
  // The hash of the num_known_ tokens before index `end`, which is at least num_known_.
  uint64_t ContextBefore(size_t end) const;

  const size_t num_known_;                  // n - 1: tokens of an n-gram before its last one
  const uint64_t known_power_;              // of the hash's base
  std::vector<uint64_t> prefix_hashes_{0};  // of the first i tokens
  absl::flat_hash_map<uint64_t, std::vector<int32_t>> ends_;           // by context
  absl::flat_hash_map<std::pair<uint64_t, int32_t>, int32_t> counts_;  // by context and end
};

// By continuation, how many of the last tokens were followed by it before: the longest such run.
// This is what DRY penalises (p-e-w 2024, text-generation-webui). Of the earlier occurrences of the
// last token, the newest kMaxOccurrences count.
class RepeatedRuns {
 public:
  static constexpr int kMaxOccurrences = 8192;

  // Neither a run nor a continuation holds one of `breakers`.
  explicit RepeatedRuns(absl::flat_hash_set<int32_t> breakers) : breakers_(std::move(breakers)) {}

  void OnAppend(absl::Span<const int32_t> tokens);
  void OnTruncate(absl::Span<const int32_t> tokens, int32_t size);

  // Runs of at least 1 token within the last `range` tokens; 0: within all of them.
  // The first call after construction or a long cut takes time linear in the sequence's length, as
  // does OnAppend of a token whose old occurrences follow one that has occurred more often than is
  // kept.
  absl::flat_hash_map<int32_t, int32_t> Find(absl::Span<const int32_t> tokens, int32_t range);

 private:
  // The `length` tokens before index `end` equal the sequence's last ones; no longer run does.
  struct Match {
    int32_t end = 0;
    int32_t length = 0;
  };
  // Of the sequence as it was at one size.
  struct Level {
    std::vector<Match> matches;  // by ascending end
    int32_t num_unbroken = 0;    // last tokens without a breaker among them
  };

  void Rebuild(absl::Span<const int32_t> tokens);
  Level Next(const Level& level, absl::Span<const int32_t> tokens) const;
  // Where the last of `tokens` has occurred before it: the newest kMaxOccurrences, ascending.
  absl::Span<const int32_t> Earlier(absl::Span<const int32_t> tokens) const;

  const absl::flat_hash_set<int32_t> breakers_;
  int32_t num_indexed_ = 0;  // tokens that `occurrences_` holds
  absl::flat_hash_map<int32_t, std::vector<int32_t>> occurrences_;  // ascending indices, by token
  std::deque<Level> levels_;  // the last is of num_indexed_ tokens, each other of one fewer
};

}  // namespace sluice
