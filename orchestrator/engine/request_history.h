// The requests that ended of late, and the log's line about each. Lives on one event loop.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "orchestrator/engine/ledger.h"

namespace sluice {

class RequestHistory {
 public:
  static constexpr size_t kMostKept = 256;

  // Keeps it, in place of the oldest where there are too many, and logs a line: whom it was for,
  // what it took and how it ended, nothing of what was written.
  void Add(RequestLedger ended);

  // Appends those that the query asks for, the oldest first.
  void Find(const LedgerQuery& query, std::vector<RequestLedger>& into) const;

 private:
  std::deque<RequestLedger> ended_;  // oldest first
};

}  // namespace sluice
