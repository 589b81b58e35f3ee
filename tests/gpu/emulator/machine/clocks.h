// Which accesses of a cluster's threads come before which: vector clocks, as race detectors keep them
// (Flanagan and Freund, "FastTrack", PLDI 2009). A thread's clock counts what each other has released
// and it has acquired, through barriers alone: two accesses that neither clock puts in an order are a
// race, whatever order they happened to be carried out in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::cuda::emulator {

// A moment of one thread, or of copies that arrive at one barrier.
struct Moment {
  uint32_t who = 0;
  uint32_t when = 0;  // 0: never
};

class VectorClock {
 public:
  VectorClock() = default;
  explicit VectorClock(size_t size) : at_(size) {}

  size_t size() const { return at_.size(); }
  bool IsAfter(const Moment& moment) const { return at_[moment.who] >= moment.when; }
  uint32_t operator[](size_t who) const { return at_[who]; }
  void Tick(size_t who) { ++at_[who]; }
  void Join(const VectorClock& other) {
    if (at_.size() < other.at_.size()) at_.resize(other.at_.size());
    for (size_t i = 0; i < other.at_.size(); ++i) at_[i] = std::max(at_[i], other.at_[i]);
  }
  void Clear() { std::fill(at_.begin(), at_.end(), 0); }

 private:
  std::vector<uint32_t> at_;
};

}  // namespace sluice::cuda::emulator
