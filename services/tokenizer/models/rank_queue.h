// A priority queue of places in a word by the rank of the merge possible there; of equal ranks, the
// leftmost first. Places of one rank lie together and are sorted once, which makes long words with
// few different merges, the worst case, nearly linear. Keeps its memory. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

class RankQueue {
 public:
  struct Place {
    uint32_t rank;
    uint32_t at;
  };

  // Makes room for ranks below `rank_limit`. REQUIRES: it is empty.
  void Prepare(uint32_t rank_limit) {
    if (bucket_of_rank_.size() < rank_limit) bucket_of_rank_.resize(rank_limit, kNone);
  }

  bool empty() const { return ranks_.empty(); }
  void Push(Place place);
  // REQUIRES: !empty().
  Place Pop();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // The places of one rank.
  struct Bucket {
    std::vector<uint32_t> places;
    size_t next = 0;             // the first that is left, once begun
    bool begun = false;          // places are sorted and no more are added
    std::vector<uint32_t> late;  // a heap of those that came afterwards
  };

  uint32_t NewBucket();
  static uint32_t TakeFirst(Bucket* bucket);

  std::vector<uint32_t> bucket_of_rank_;  // kNone where no place has the rank
  std::vector<uint32_t> ranks_;           // a heap of those that some place has
  std::vector<Bucket> buckets_;
  std::vector<uint32_t> unused_buckets_;
};

}  // namespace sluice
