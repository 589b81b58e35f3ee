// Events that peers cause, counted so that no peer can fill a log: at most one report a second of each
// event of each host. A pure state machine; times are of a steady clock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sluice {

struct PeerEvent {
  std::string event;  // a short noun phrase with dashes, such as "connection-closed"
  std::string host;
  std::string cause;
  uint64_t count = 1;  // how often since the last report
};

class EventCounts {
 public:
  // What is to be reported now: the event itself, or nothing where the same has been reported within
  // the last second.
  std::vector<PeerEvent> Add(absl::string_view event, absl::string_view host,
                             absl::string_view cause, absl::Duration now);
  // What has been counted and not been reported for a second. To be called every now and then.
  std::vector<PeerEvent> TakeDue(absl::Duration now);

 private:
  using Key = std::tuple<std::string, std::string, std::string>;
  struct Counted {
    uint64_t count = 0;
    absl::Duration reported;
  };

  std::map<Key, Counted> counted_;
};

}  // namespace sluice
