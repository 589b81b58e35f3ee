// What a kernel's accesses have cost, for people.
#pragma once

#include <cstdint>
#include <string>

#include "tests/gpu/emulator/machine/traffic.h"

namespace sluice::cuda::emulator {

// A line for the kernel, and one for each of the steps that cost more than they need, the most costly
// first.
std::string TrafficReport(const std::string& kernel, const Traffic& traffic);

}  // namespace sluice::cuda::emulator
