// A 32-bit counter or flag in memory that processes share, alone on its cache line so that ranks
// polling different words do not slow each other. Zeroed memory is a valid word of value 0.
//
// Every access is sequentially consistent. Most would do with acquire and release, but sleeping
// would not: "announce that I sleep, then look for news" against "publish news, then look for
// sleepers" needs one order of all four accesses, else both may miss each other. On x86 only the
// stores pay for it, about ten nanoseconds each.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace sluice {

inline constexpr std::size_t kCacheLine = 64;

class alignas(kCacheLine) ShmWord {
 public:
  std::uint32_t Load() { return Atomic().load(); }
  void Store(std::uint32_t value) { Atomic().store(value); }
  std::uint32_t Exchange(std::uint32_t value) { return Atomic().exchange(value); }
  bool CompareExchange(std::uint32_t expected, std::uint32_t desired) {
    return Atomic().compare_exchange_strong(expected, desired);
  }

  // Sleeps while the word holds `value`, for at most `timeout`; may return early for no reason.
  void WaitWhile(std::uint32_t value, absl::Duration timeout);
  // Wakes whoever sleeps on the word, in any process.
  void Wake();

 private:
  std::atomic_ref<std::uint32_t> Atomic() { return std::atomic_ref<std::uint32_t>(value_); }

  std::uint32_t value_;
};

// A lock kept elsewhere would not be shared with the other processes.
static_assert(std::atomic_ref<std::uint32_t>::is_always_lock_free);

}  // namespace sluice
