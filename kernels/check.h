// Assertions for broken invariants: a bug in Sluice, never a user's, file's or peer's fault.
// Those end in a Status. Thread-safe.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace sluice::internal {

[[noreturn]] inline void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}

}  // namespace sluice::internal

#define SLUICE_CHECK(condition) \
  ((condition) ? (void)0 : ::sluice::internal::CheckFailed(#condition, __FILE__, __LINE__))
