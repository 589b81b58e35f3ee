// Philox 4x32-10, a counter-based random number generator: a pure function from (key, counter) to
// 128 random bits (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3").
#pragma once

#include <array>
#include <cstdint>

namespace sluice {

using PhiloxKey = std::array<uint32_t, 2>;
using PhiloxCounter = std::array<uint32_t, 4>;

// What a random number decides; each has numbers of its own.
enum class DrawPurpose : uint32_t { kToken = 0, kXtc = 1, kGumbel = 2 };

PhiloxCounter Philox4x32(PhiloxKey key, PhiloxCounter counter);

// The random number in [0, 1), a multiple of 2^-53, that chooses the token at `position` of the
// `sequence_index`-th sequence of a request with `seed`. Nothing is remembered between calls, so a
// sequence that is computed again draws the same numbers.
//
// Key: the low and the high half of the seed. Counter: {position, sequence_index, purpose, item}; the
// item is 0 where a place needs one number, else it tells several apart. The number is the upper 53
// bits of (word 1 << 32 | word 0).
double UniformFor(uint64_t seed, int32_t sequence_index, int32_t position,
                  DrawPurpose purpose = DrawPurpose::kToken, uint32_t item = 0);

}  // namespace sluice
