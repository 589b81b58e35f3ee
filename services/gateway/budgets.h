// Memory and descriptor budgets of a gateway, derived from the limits of its process. Pure
// functions.
#pragma once

#include <cstdint>

#include "services/gateway/http/limits.h"

namespace sluice::gateway {

struct Budgets {
  uint64_t body_bytes = 0;     // of bodies of callers who are known, and of what is made of them
  uint64_t waiting_bytes = 0;  // of requests whose callers are not known yet
  uint64_t value_bytes = 0;    // of one JSON value
};

// Together they leave three eighths of the memory to connections and the program.
Budgets BudgetsOf(uint64_t memory_bytes);

// `limits` as far as memory and descriptors allow: fewer connections, smaller bodies.
http::Limits FitLimits(http::Limits limits, uint64_t memory_bytes, uint64_t max_descriptors,
                       bool uses_tls);

}  // namespace sluice::gateway
