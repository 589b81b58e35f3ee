// The merges of vocabularies that give each token a rank rather than list merges, as tiktoken's and
// SentencePiece's do: any two tokens merge if what they spell together is a token.
#pragma once

#include <cstdint>
#include <vector>

#include "services/tokenizer/models/merge_table.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {

// `ranks` is by id; a token of rank MergeRule::kNoRank is neither merged nor the result of a merge.
MergeTable MergesOfRanks(const Vocabulary& vocabulary, const std::vector<uint32_t>& ranks);

}  // namespace sluice
