// A grammar compiled for a vocabulary, and texts on their way through it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "services/constraint/engine/automaton.h"
#include "services/constraint/engine/mask_maker.h"
#include "services/constraint/engine/token_vocabulary.h"
#include "services/constraint/grammar/grammar.h"

namespace sluice {

struct ConstraintLimits {
  AutomatonLimits automaton;
  // What states and masks may take; beyond, they are forgotten and made anew where they are needed.
  size_t max_bytes = size_t{64} << 20;
  size_t max_mask_bytes = size_t{16} << 20;
  // For one token or mask; some tens of nanoseconds each. What takes more fails.
  size_t max_work = 2'000'000;
};

// Shared by all texts under one grammar. Thread-safe: its automaton grows under a lock.
class Constraint {
 public:
  static std::shared_ptr<Constraint> Create(std::unique_ptr<Grammar> grammar,
                                            std::shared_ptr<const TokenVocabulary> vocabulary,
                                            const ConstraintLimits& limits = {});

  const TokenVocabulary& vocabulary() const { return *vocabulary_; }
  // What it held when its last token or mask began, in bytes. Never waits.
  size_t memory() const { return memory_; }

  // Has `checkpoint` called while texts under the grammar are worked on, as
  // ExprSpace::set_checkpoint; null: nothing is called. It must not use the constraint. While it
  // waits, others that use the constraint wait for it.
  void SetCheckpoint(const std::function<void()>* checkpoint) {
    absl::MutexLock lock(&mutex_);
    grammar_->space().set_checkpoint(checkpoint);
  }

 private:
  friend class Matcher;
  struct Made {
    Made(const Grammar& grammar, const TokenVocabulary& vocabulary, const ConstraintLimits& limits)
        : automaton(grammar, limits.automaton),
          masks(automaton, vocabulary, limits.max_mask_bytes) {}
    Automaton automaton;
    MaskMaker masks;
  };

  Constraint(std::unique_ptr<Grammar> grammar, std::shared_ptr<const TokenVocabulary> vocabulary,
             const ConstraintLimits& limits);

  // Forgets all states where they take too much, or a limit was passed.
  void Prepare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<Grammar> grammar_;
  const std::shared_ptr<const TokenVocabulary> vocabulary_;
  const ConstraintLimits limits_;
  const size_t num_exprs_;  // of the grammar itself

  mutable absl::Mutex mutex_;
  std::unique_ptr<Made> made_ ABSL_GUARDED_BY(mutex_);
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;  // of the states in made_
  std::atomic<size_t> memory_ = 0;
};

// Where one text is, as a function of its tokens alone. Not thread-safe; any number of matchers may
// share a constraint.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Constraint> constraint);

  // Appends a token. INVALID_ARGUMENT, changing nothing, where it is not allowed;
  // RESOURCE_EXHAUSTED where it takes too much work. An end token ends the text: none may follow.
  absl::Status Accept(int32_t token);
  // Starts again, with these tokens. Errors as Accept, naming the first token that has one; the
  // text then holds those before it. What it begins with already is not read again.
  absl::Status Reset(absl::Span<const int32_t> tokens);

  // Writes which tokens may come next to `words` (vocabulary().mask_words() of them), laid out as
  // TokenMask. RESOURCE_EXHAUSTED where that takes too much work.
  absl::Status FillMask(absl::Span<uint64_t> words);
  // Whether the text may end here.
  absl::StatusOr<bool> MayEnd();
  bool ended() const { return ended_; }

  // The tokens that must come next, up to `max` of them: while one alone is allowed. What follows
  // here is what sampling would choose one by one.
  absl::StatusOr<std::vector<int32_t>> ForcedTokens(size_t max);
  // The bytes that must come next, up to `max` of them: while one alone is allowed. Several tokens may
  // begin them, and the last token may go beyond.
  absl::StatusOr<std::string> ForcedText(size_t max);

  // What the text is so far.
  absl::Span<const int32_t> tokens() const { return tokens_; }
  const Constraint& constraint() const { return *constraint_; }

 private:
  // The state after tokens_, made anew where it was forgotten.
  absl::StatusOr<Automaton::State> State() ABSL_EXCLUSIVE_LOCKS_REQUIRED(constraint_->mutex_);
  // The state after one more token; kDead where it is not allowed.
  Automaton::State After(Automaton::State state, int32_t token)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(constraint_->mutex_);
  absl::StatusOr<const TokenMask*> Mask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(constraint_->mutex_);

  std::shared_ptr<Constraint> constraint_;
  std::vector<int32_t> tokens_;
  bool ended_ = false;
  uint64_t generation_ = 0;               // that states_ are of
  std::vector<Automaton::State> states_;  // after the first so many tokens; none where forgotten
};

}  // namespace sluice
