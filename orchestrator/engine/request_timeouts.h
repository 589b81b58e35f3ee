// When requests end by themselves: at their deadlines, and where clients do not read for too long.
// Lives on one event loop.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "orchestrator/scheduler/sequence.h"
#include "services/common/steady_time.h"

namespace sluice {

class RequestTimeouts {
 public:
  void SetDeadline(RequestId id, SteadyTime deadline) { deadlines_.emplace(deadline, id); }
  void ForgetDeadline(RequestId id, SteadyTime deadline) { deadlines_.erase({deadline, id}); }

  // The client of `id` does not read, and has until `timeout`; an earlier one stays.
  void SetUnread(RequestId id, SteadyTime timeout) {
    if (unread_.emplace(id, timeout).second) unread_timeouts_.emplace(timeout, id);
  }
  bool IsUnread(RequestId id) const { return unread_.contains(id); }
  void ForgetUnread(RequestId id) {
    const auto found = unread_.find(id);
    if (found == unread_.end()) return;
    unread_timeouts_.erase({found->second, id});
    unread_.erase(found);
  }

  SteadyTime next_deadline() const { return EarliestOf(deadlines_); }
  SteadyTime next_unread() const { return EarliestOf(unread_timeouts_); }
  // A request whose deadline is `due` or earlier; nothing where there is none.
  std::optional<RequestId> PastDeadline(SteadyTime due) const { return Past(deadlines_, due); }
  // One whose client was to read by `due`.
  std::optional<RequestId> PastUnread(SteadyTime due) const { return Past(unread_timeouts_, due); }

 private:
  using Moments = std::set<std::pair<SteadyTime, RequestId>>;

  static SteadyTime EarliestOf(const Moments& moments) {
    return moments.empty() ? SteadyTime::InfiniteFuture() : moments.begin()->first;
  }
  static std::optional<RequestId> Past(const Moments& moments, SteadyTime due) {
    if (moments.empty() || due < moments.begin()->first) return std::nullopt;
    return moments.begin()->second;
  }

  Moments deadlines_;
  // Both ways round.
  std::map<RequestId, SteadyTime> unread_;
  Moments unread_timeouts_;
};

}  // namespace sluice
