// The merges of a SentencePiece BPE vocabulary, in the order in which Hugging Face's converter
// writes them into a tokenizer.json. Pure function.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

using MergePair = std::pair<std::string_view, std::string_view>;

// Every way in which two tokens make a third one, by falling score of that one, then by falling
// number of characters of the two parts. `tokens` and `scores` have an element for each id; what is
// returned borrows from the tokens.
std::vector<MergePair> MergesOfScores(absl::Span<const std::string_view> tokens,
                                      absl::Span<const double> scores);

}  // namespace sluice
