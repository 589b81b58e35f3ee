// The tokens of a sequence before the one to choose, and what has been counted in them: a function
// of the tokens alone, kept so that a step counts only what is new. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace sluice {

class SequencePast {
 public:
  struct Count {
    int32_t all = 0;        // in prompt and generated tokens
    int32_t generated = 0;  // in generated tokens
  };

  SequencePast() = default;
  // The first `num_prompt` of what will be appended are the prompt.
  explicit SequencePast(int32_t num_prompt) : num_prompt_(num_prompt) {}

  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  int32_t num_generated() const { return size() > num_prompt_ ? size() - num_prompt_ : 0; }
  absl::Span<const int32_t> tokens() const { return tokens_; }
  absl::Span<const int32_t> generated() const { return tokens().last(num_generated()); }
  // By token, of those that occur.
  const absl::flat_hash_map<int32_t, Count>& counts() const { return counts_; }

  void Append(int32_t token);
  // Takes back the tokens from position `size` on. REQUIRES: 0 <= size <= this->size().
  void Truncate(int32_t size);

 private:
  int32_t num_prompt_ = 0;
  std::vector<int32_t> tokens_;
  absl::flat_hash_map<int32_t, Count> counts_;
};

}  // namespace sluice
