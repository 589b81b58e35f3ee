// Knows which work of a process takes too long: what hangs, and what does not come back from that.
// How long is too long follows from how long such work has taken (StepTimes).
//
// Time in which the process itself stood still does not count: stopped (SIGSTOP, Ctrl-Z, a
// debugger) or starved, it learns of the time that has passed before its work can.
//
// A pure state machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "services/common/steady_time.h"
#include "services/watch/step_times.h"

namespace sluice {

class HangDetector {
 public:
  enum class State {
    kMoving,
    kHangs,  // work exceeds its bound
    kStuck,  // and did not come back within `hang_timeout` after that
  };

  // No work hangs in less than `hang_timeout`.
  explicit HangDetector(absl::Duration hang_timeout) : least_(hang_timeout) {}

  // Work named `what` of so many tokens, bytes or whatever its time grows with, has begun. Ends
  // with the number returned. Work of one name is compared with its like.
  uint64_t Begin(const char* what, int size, SteadyTime now);
  void End(uint64_t work, SteadyTime now);

  // To be called every interval() or sooner.
  State Tick(SteadyTime now);
  absl::Duration interval() const { return least_ / 8; }

  // What hangs longest and since when, such as "step of 16 for 2.1s"; "" where nothing does.
  std::string Hanging() const;

 private:
  struct Work {
    const char* what;
    int size;
    SteadyTime begun;         // by the clock
    absl::Duration begun_at;  // by moving_
    absl::Duration bound;
  };

  const absl::Duration least_;
  SteadyTime last_tick_;
  absl::Duration moving_;  // that the process has been running, as far as ticks tell
  uint64_t next_work_ = 1;
  std::map<uint64_t, Work> works_;
  std::map<std::string, StepTimes> times_;  // by the work's name
};

}  // namespace sluice
