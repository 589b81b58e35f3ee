#include "services/gateway/budgets.h"

#include <algorithm>
#include <limits>

namespace sluice::gateway {
namespace {

// A connection with its buffers; OpenSSL keeps two records of 16 KiB of its own.
constexpr uint64_t kConnectionBytes = 16 << 10;
constexpr uint64_t kTlsConnectionBytes = 64 << 10;
// For connections to orchestrators, files, and a health listener.
constexpr uint64_t kOtherDescriptors = 64;
// Of a body's size, that one request takes of the budget for bodies; see http/connection.cc.
constexpr uint64_t kCopies = 3;

}  // namespace

Budgets BudgetsOf(uint64_t memory_bytes) {
  return {.body_bytes = memory_bytes / 8 * 3,
          .waiting_bytes = memory_bytes / 8,
          .value_bytes = memory_bytes / 8};
}

http::Limits FitLimits(http::Limits limits, uint64_t memory_bytes, uint64_t max_descriptors,
                       bool uses_tls) {
  const uint64_t descriptors = max_descriptors > 2 * kOtherDescriptors
                                   ? max_descriptors - kOtherDescriptors
                                   : std::max<uint64_t>(max_descriptors / 2, 1);
  const uint64_t in_memory =
      std::max<uint64_t>(1, memory_bytes / 4 / (uses_tls ? kTlsConnectionBytes : kConnectionBytes));
  const uint64_t most = std::min({descriptors, in_memory, uint64_t{1'000'000}});
  limits.max_connections = std::min(limits.max_connections, static_cast<int>(most));
  // One caller may take half of the budget.
  limits.max_body_bytes =
      std::min(limits.max_body_bytes,
               std::max(limits.small_body_bytes, BudgetsOf(memory_bytes).body_bytes / 2 / kCopies));
  return limits;
}

}  // namespace sluice::gateway
