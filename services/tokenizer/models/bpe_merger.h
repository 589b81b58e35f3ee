// Byte-pair encoding's merging of one word: again and again, of all neighbouring pairs that merge,
// the one with the lowest rank, the leftmost of equals. Short words by scanning, long ones with a
// priority queue in O(n log n) at worst. Keeps its memory between words. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/tokenizer/models/merge_table.h"
#include "services/tokenizer/models/model.h"
#include "services/tokenizer/models/rank_queue.h"
#include "services/tokenizer/text/token.h"

namespace sluice {

// A token and the bytes of the word it covers.
struct BpeSymbol {
  TokenId id;
  uint32_t num_bytes;
};

class BpeMerger {
 public:
  // Merges `symbols` in place. Long words keep the pace of `scratch`, where that is not null.
  void Merge(const MergeTable& table, std::vector<BpeSymbol>* symbols,
             ModelScratch* scratch = nullptr);

 private:
  struct Links {
    uint32_t previous;
    uint32_t next;
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  void MergeByScanning(const MergeTable& table, std::vector<BpeSymbol>* symbols);
  void MergeByQueue(const MergeTable& table, std::vector<BpeSymbol>* symbols,
                    ModelScratch* scratch);
  void Link(const MergeTable& table, absl::Span<const BpeSymbol> symbols, ModelScratch* scratch);
  void Offer(const MergeTable& table, absl::Span<const BpeSymbol> symbols, uint32_t left);

  std::vector<MergeRule> pairs_;  // of each symbol with the next, while scanning
  std::vector<Links> links_;
  RankQueue queue_;
};

}  // namespace sluice
