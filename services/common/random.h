// Cryptographically random numbers, for ids and for seeds that a client left unset. Thread-safe.
#pragma once

#include <cstdint>

namespace sluice {

// From the system's generator, many at a time: std::random_device asks the processor for each half
// of a number, which takes microseconds where that is virtual.
uint64_t RandomNumber();

}  // namespace sluice
