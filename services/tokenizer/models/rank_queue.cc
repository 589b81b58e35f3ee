#include "services/tokenizer/models/rank_queue.h"

#include <algorithm>
#include <functional>

namespace sluice {

void RankQueue::Push(Place place) {
  uint32_t& index = bucket_of_rank_[place.rank];
  if (index == kNone) {
    index = NewBucket();
    ranks_.push_back(place.rank);
    std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
  }
  Bucket& bucket = buckets_[index];
  if (!bucket.begun) {
    bucket.places.push_back(place.at);
    return;
  }
  bucket.late.push_back(place.at);
  std::push_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
}

RankQueue::Place RankQueue::Pop() {
  const uint32_t rank = ranks_.front();
  const uint32_t index = bucket_of_rank_[rank];
  Bucket& bucket = buckets_[index];
  const uint32_t at = TakeFirst(&bucket);
  if (bucket.next == bucket.places.size() && bucket.late.empty()) {
    std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    ranks_.pop_back();
    bucket_of_rank_[rank] = kNone;
    unused_buckets_.push_back(index);
  }
  return {rank, at};
}

uint32_t RankQueue::NewBucket() {
  if (unused_buckets_.empty()) {
    buckets_.emplace_back();
    return static_cast<uint32_t>(buckets_.size() - 1);
  }
  const uint32_t index = unused_buckets_.back();
  unused_buckets_.pop_back();
  Bucket& bucket = buckets_[index];
  bucket.places.clear();
  bucket.next = 0;
  bucket.begun = false;
  return index;
}

uint32_t RankQueue::TakeFirst(Bucket* bucket) {
  std::vector<uint32_t>& places = bucket->places;
  if (!bucket->begun) {
    bucket->begun = true;
    if (!std::is_sorted(places.begin(), places.end())) std::sort(places.begin(), places.end());
  }
  const bool takes_late = !bucket->late.empty() && (bucket->next == places.size() ||
                                                    bucket->late.front() < places[bucket->next]);
  if (!takes_late) return places[bucket->next++];
  std::pop_heap(bucket->late.begin(), bucket->late.end(), std::greater<>());
  const uint32_t at = bucket->late.back();
  bucket->late.pop_back();
  return at;
}

}  // namespace sluice
