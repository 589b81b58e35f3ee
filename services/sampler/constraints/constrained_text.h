// One sequence's text under its constraint: which tokens may come next, as a function of the tokens
// so far. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/sampler/constraints/constraint_store.h"

namespace sluice {

class ConstrainedText {
 public:
  // Of a constraint that could not be compiled, Allowed says why.
  explicit ConstrainedText(ConstraintStore::Result constraint);

  // Which tokens may follow `tokens`, as SampleRow::allowed; valid until the next call. Of `within`,
  // laid out alike, where that is not empty. `tokens` are those of the last call with others behind
  // them, unless Truncate was called. INVALID_ARGUMENT where they don't keep the constraint;
  // RESOURCE_EXHAUSTED where it takes too much.
  absl::StatusOr<absl::Span<const uint32_t>> Allowed(absl::Span<const int32_t> tokens,
                                                     absl::Span<const uint32_t> within);

  // The tokens that must follow `tokens`, which are as in Allowed: up to `max`, while one alone is
  // allowed. None where that can't be told.
  std::vector<int32_t> Forced(absl::Span<const int32_t> tokens, size_t max);

  // The tokens in which what must follow `tokens`, which are as in Allowed, is usually written, up to
  // `max`: others may write it as well, and the last may in truth be longer. None where no text must
  // follow, or that can't be told.
  std::vector<int32_t> Likely(absl::Span<const int32_t> tokens, size_t max);

  // Takes back all but the first tokens.
  void Truncate(size_t num_tokens);

 private:
  absl::Status Accept(absl::Span<const int32_t> tokens);

  absl::Status status_;             // of the constraint
  std::optional<Matcher> matcher_;  // where that is OK
  size_t num_accepted_ = 0;         // tokens, the end of the text included
  std::vector<uint64_t> mask_;
  std::vector<uint32_t> allowed_;  // the same in other words
};

}  // namespace sluice
