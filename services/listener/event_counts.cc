#include "services/listener/event_counts.h"

#include <utility>

namespace sluice {
namespace {

constexpr absl::Duration kPause = absl::Seconds(1);
// Of further hosts the events are counted together.
constexpr size_t kMostKeys = 256;
constexpr char kOtherHosts[] = "others";

}  // namespace

std::vector<PeerEvent> EventCounts::Add(absl::string_view event, absl::string_view host,
                                        absl::string_view cause, absl::Duration now) {
  Key key(event, host, cause);
  auto found = counted_.find(key);
  if (found == counted_.end()) {
    if (counted_.size() >= kMostKeys) {
      std::get<1>(key) = kOtherHosts;
      found = counted_.find(key);
    }
    if (found == counted_.end()) {
      const auto& [of_event, of_host, of_cause] = key;
      const PeerEvent first = {.event = of_event, .host = of_host, .cause = of_cause};
      counted_[std::move(key)] = {.reported = now};
      return {first};
    }
  }
  Counted& counted = found->second;
  ++counted.count;
  if (now - counted.reported < kPause) return {};
  counted.reported = now;
  return {{.event = std::string(event),
           .host = std::get<1>(found->first),
           .cause = std::string(cause),
           .count = std::exchange(counted.count, 0)}};
}

std::vector<PeerEvent> EventCounts::TakeDue(absl::Duration now) {
  std::vector<PeerEvent> due;
  for (auto it = counted_.begin(); it != counted_.end();) {
    auto& [key, counted] = *it;
    if (now - counted.reported < kPause) {
      ++it;
      continue;
    }
    if (counted.count == 0) {
      it = counted_.erase(it);
      continue;
    }
    const auto& [event, host, cause] = key;
    due.push_back(
        {.event = event, .host = host, .cause = cause, .count = std::exchange(counted.count, 0)});
    counted.reported = now;
    ++it;
  }
  return due;
}

}  // namespace sluice
