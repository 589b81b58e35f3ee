#include "kernels/usable_memory.h"

#include <limits>

#include "absl/strings/numbers.h"
#include "kernels/control_groups.h"

namespace sluice {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
// Version 1 says a number of pages near 2^63 bytes where there is no limit.
constexpr double kMost = 1e18;

double LimitOf(const std::string& folder, bool is_v2) {
  double bytes = 0;
  const char* const file = is_v2 ? "/memory.max" : "/memory.limit_in_bytes";
  if (!absl::SimpleAtod(ReadGroupFile(folder + file), &bytes)) return kUnlimited;  // "max"
  return bytes > 0 && bytes < kMost ? bytes : kUnlimited;
}

}  // namespace

uint64_t MemoryLimit(const std::string& root) {
  const double limit = LeastGroupLimit(root, "memory", LimitOf);
  return limit < kMost ? static_cast<uint64_t>(limit) : std::numeric_limits<uint64_t>::max();
}

}  // namespace sluice
