// Virtual time: events in the order of their times, those of one time in the order in which they
// were planned. Also the simulation's only source of chance, and its memory of what happened.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "services/common/steady_time.h"

namespace sluice::simulation {

using Event = absl::AnyInvocable<void()>;

class Timeline {
 public:
  SteadyTime now() const { return now_; }
  absl::Duration elapsed() const { return now_.since_start(); }

  void At(SteadyTime when, Event event) {
    heap_.push_back({std::max(when, now_), next_++, std::move(event)});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  void After(absl::Duration delay, Event event) { At(now_ + delay, std::move(event)); }

  // Runs the next event; false where there is none at `limit` or before.
  bool RunNext(SteadyTime limit) {
    if (heap_.empty() || heap_.front().when > limit) return false;
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    Planned planned = std::move(heap_.back());
    heap_.pop_back();
    now_ = planned.when;
    planned.event();
    return true;
  }

 private:
  struct Planned {
    SteadyTime when;
    uint64_t order;
    Event event;
  };
  static bool Later(const Planned& a, const Planned& b) {
    return a.when == b.when ? a.order > b.order : a.when > b.when;
  }

  SteadyTime now_ = SteadyTime::FromStart(absl::ZeroDuration());
  uint64_t next_ = 0;
  std::vector<Planned> heap_;
};

// SplitMix64: the same numbers on every machine.
class Chance {
 public:
  explicit Chance(uint64_t seed) : state_(seed) {}

  uint64_t Number() {
    uint64_t x = (state_ += 0x9e3779b97f4a7c15u);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  // In [low, high].
  int Pick(int low, int high) {
    return low + static_cast<int>(Number() % static_cast<uint64_t>(high - low + 1));
  }
  bool Percent(int percent) { return Pick(1, 100) <= percent; }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    const int64_t span = absl::ToInt64Nanoseconds(high - low) + 1;
    return low + absl::Nanoseconds(static_cast<int64_t>(Number() % static_cast<uint64_t>(span)));
  }

 private:
  uint64_t state_;
};

// What happened, line by line, where somebody wants to read it.
class History {
 public:
  explicit History(bool wanted) : wanted_(wanted) {}

  template <class... Parts>
  void Add(const Timeline& timeline, const Parts&... parts) {
    if (wanted_) {
      lines_.push_back(absl::StrCat(absl::FormatDuration(timeline.elapsed()), "  ", parts...));
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  const bool wanted_;
  std::vector<std::string> lines_;
};

}  // namespace sluice::simulation
