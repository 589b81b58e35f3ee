// Prefix sums over the threads of a block, and the k-th largest of many numbers. After simt.h.
#pragma once

#include "kernels/cuda/kernels/elements.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// What blocks that select share; any of it may be used again after a barrier.
struct SelectShared {
  double joined[32];
  double scanned[32];
  unsigned histogram[256];
  unsigned found[2];
};

template <class T>
struct Prefix {
  T before;  // the sum over the threads before this one
  T total;
};
// In an order that depends on the number of threads alone.
template <class T>
SIMT_DEVICE Prefix<T> ScanThreads(T value, SelectShared& shared) {
  auto* const totals = reinterpret_cast<T*>(shared.scanned);
  const int lane = Thread() % kWarpSize, warp = Thread() / kWarpSize;
  T sum = value;
  for (int delta = 1; delta < kWarpSize; delta *= 2) {
    const T other = ShuffleUp(sum, delta);
    if (lane >= delta) sum = other + sum;
  }
  T before = ShuffleUp(sum, 1);
  if (lane == 0) before = 0;
  Barrier();
  if (lane == kWarpSize - 1) totals[warp] = sum;
  Barrier();
  T of_warps = 0, total = 0;
  for (int i = 0; i < NumThreads() / kWarpSize; ++i) {
    if (i == warp) of_warps = total;
    total += totals[i];
  }
  return {of_warps + before, total};
}

// Rises with the number; zeroes of both signs are one, NaN comes first.
SIMT_DEVICE uint32_t OrderedKey(float value) {
  if (IsNaN(value)) return 0;
  const uint32_t bits = value == 0 ? 0u : BitsOf(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
SIMT_DEVICE float NumberOfKey(uint32_t key) {
  return FloatFromBits((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}
SIMT_DEVICE uint64_t OrderedKey(double value) {
  const uint64_t bits = value == 0 ? 0u : BitsOf(value);
  constexpr uint64_t kSign = uint64_t{1} << 63;
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

// Numbers that a thread asks for before it counts the first of them: passes over a vocabulary wait
// for little else than memory.
inline constexpr int kReadsAtATime = 8;

struct KthLargest {
  uint32_t key = 0;
  int64_t num_ties = 0;  // elements of that key among the k largest
};
// Of n keys, 1 <= k <= n: eight bits at a time, by counting.
template <class KeyAt>
SIMT_DEVICE KthLargest FindKthLargest(int64_t n, int64_t k, KeyAt key_at, SelectShared& shared) {
  uint32_t prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    Barrier();
    for (int i = Thread(); i < 256; i += NumThreads()) shared.histogram[i] = 0;
    Barrier();
    for (int64_t begin = Thread(); begin < n; begin += kReadsAtATime * NumThreads()) {
      uint32_t keys[kReadsAtATime];
      SIMT_UNROLL
      for (int j = 0; j < kReadsAtATime; ++j) {
        const int64_t i = begin + j * NumThreads();
        keys[j] = i < n ? key_at(i) : 0;
      }
      SIMT_UNROLL
      for (int j = 0; j < kReadsAtATime; ++j) {
        const bool is_member = shift == 24 || keys[j] >> (shift + 8) == prefix >> (shift + 8);
        if (is_member && begin + j * NumThreads() < n) {
          AtomicAdd(&shared.histogram[keys[j] >> shift & 0xff], 1u);
        }
      }
    }
    Barrier();
    if (Thread() == 0) {
      auto left = static_cast<unsigned>(k);
      unsigned digit = 255;
      while (shared.histogram[digit] < left) left -= shared.histogram[digit--];
      shared.found[0] = digit;
      shared.found[1] = left;
    }
    Barrier();
    prefix |= shared.found[0] << shift;
    k = shared.found[1];
  }
  return {prefix, k};
}

// Calls write(place, i) for the elements that are above `cut`, and for its ties in order of i, in
// ascending order of i, place counting from 0.
template <class KeyAt, class Write>
SIMT_DEVICE void WriteLargest(int64_t n, KthLargest cut, KeyAt key_at, Write write,
                              SelectShared& shared) {
  int64_t place = 0, ties_before = 0;
  for (int64_t begin = 0; begin < n; begin += NumThreads()) {
    const int64_t i = begin + Thread();
    const uint32_t key = i < n ? key_at(i) : 0;
    const bool is_tie = i < n && key == cut.key;
    const Prefix<int> ties = ScanThreads<int>(is_tie ? 1 : 0, shared);
    const bool is_taken =
        i < n && (key > cut.key || (is_tie && ties_before + ties.before < cut.num_ties));
    const Prefix<int> taken = ScanThreads<int>(is_taken ? 1 : 0, shared);
    if (is_taken) write(place + taken.before, i);
    place += taken.total;
    ties_before += ties.total;
  }
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
