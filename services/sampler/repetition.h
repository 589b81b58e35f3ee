// What a sequence's tokens say about the next one: continuations that would repeat something.
// Pure functions of the tokens; each takes time linear in their number.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"

namespace sluice {

// The tokens that would complete an n-gram which `tokens` already has (Paulus, Xiong and Socher
// 2018), as Hugging Face's no_repeat_ngram_size. n >= 1.
absl::flat_hash_set<int32_t> RepeatedNgramEnds(absl::Span<const int32_t> tokens, int32_t n);

// By continuation, how many of the last tokens have been followed by it before: the longest run,
// at least 1. Neither the run nor the continuation holds one of `breakers`. This is what DRY
// penalises (p-e-w 2024, text-generation-webui).
absl::flat_hash_map<int32_t, int32_t> RepeatedRuns(absl::Span<const int32_t> tokens,
                                                   const absl::flat_hash_set<int32_t>& breakers);

}  // namespace sluice
