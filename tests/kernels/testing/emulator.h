// Whether this program runs in an emulator of another processor (cmake/toolchains), which does not
// have all that the system has.
#pragma once

#include <cstdlib>

namespace sluice::testing {

inline bool IsEmulated() { return std::getenv("SLUICE_TEST_EMULATOR") != nullptr; }

}  // namespace sluice::testing
