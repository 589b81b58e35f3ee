// What is noted of a request's course while it is served, for its ledger. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "orchestrator/engine/ledger.h"

namespace sluice {

class RequestRecord {
 public:
  // Of very many, the first are kept.
  static constexpr size_t kMostEvents = 64;

  void AddEvent(RequestEvent event) {
    if (events_.size() == kMostEvents) {
      ++num_dropped_events_;
    } else {
      events_.push_back(event);
    }
  }

  void CopyTo(RequestLedger& ledger) const {
    ledger.times = times;
    ledger.events = events_;
    ledger.num_dropped_events = num_dropped_events_;
  }

  RequestTimes times;
  // Processor time that was spent on it outside of steps: before it came, and on masks.
  absl::Duration work;

 private:
  std::vector<RequestEvent> events_;
  uint32_t num_dropped_events_ = 0;
};

}  // namespace sluice
