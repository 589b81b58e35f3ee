// Ends a benchmark whose kernel computes something else than the reference: its speed is worthless.
// Tolerances as in IsNear.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {

inline void ExpectNear(std::string_view kernel, const HostMatrix& actual,
                       const HostMatrix& expected, double absolute, double relative = 0) {
  const ::testing::AssertionResult near = IsNear(actual, expected, absolute, relative);
  if (near) return;
  std::fprintf(stderr, "%s: wrong result: %s\n", std::string(kernel).c_str(), near.message());
  std::exit(1);
}

}  // namespace sluice::testing
