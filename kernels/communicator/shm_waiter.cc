#include "kernels/communicator/shm_waiter.h"

#include <sched.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// Longer than a decode step's ranks usually drift apart, yet little against the step.
constexpr absl::Duration kMaxSpin = absl::Microseconds(50);
// With more ranks than cores, spinning holds up the very rank that is waited for.
constexpr absl::Duration kMaxSpinWhenCrowded = absl::Microseconds(1);
constexpr absl::Duration kMinSpin = absl::Nanoseconds(500);
constexpr int kAttemptsPerClockReading = 16;

constexpr absl::Duration kLookAtProcessesEvery = absl::Milliseconds(100);

int UsableCores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

// Tells the core that this is a spin, so that its sibling thread gets the execution units.
void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace

ShmWaiter::ShmWaiter(const ShmSegment& segment, int rank)
    : segment_(segment),
      rank_(rank),
      max_spin_(segment.size() <= UsableCores() ? kMaxSpin : kMaxSpinWhenCrowded),
      spin_(max_spin_) {}

absl::Status ShmWaiter::GroupFailure() const {
  const std::uint32_t given_up_by = segment_.given_up_by().Load();
  if (given_up_by == 0) return absl::OkStatus();
  const int peer = static_cast<int>(given_up_by) - 1;
  return absl::UnavailableError(
      absl::StrCat("rank ", peer, " gave up: ", segment_.rank(peer).give_up_reason));
}

absl::Status ShmWaiter::Await(const Wait& wait) {
  if (Spin(wait)) {
    spin_ = std::min(max_spin_, 2 * spin_);
    return absl::OkStatus();
  }
  spin_ = std::max(kMinSpin, spin_ / 2);
  return Sleep(wait);
}

bool ShmWaiter::Spin(const Wait& wait) {
  const absl::Time end = absl::Now() + spin_;
  do {
    for (int i = 0; i < kAttemptsPerClockReading; ++i) {
      if (wait.advance()) return true;
      SpinPause();
    }
  } while (absl::Now() < end);
  return false;
}

// Order matters: first announce the sleep, then look once more. A peer does the opposite, first its
// news and then a look at `parked`, so one of the two sees the other (see shm_word.h).
absl::Status ShmWaiter::Sleep(const Wait& wait) {
  ShmWord& parked = segment_.rank(rank_).parked;
  absl::Time next_look = absl::Now() + kLookAtProcessesEvery;
  absl::Status status;
  while (true) {
    parked.Exchange(wait.parked);
    const absl::Time now = absl::Now();
    const bool look = now >= next_look;
    if (look) next_look = now + kLookAtProcessesEvery;
    // A peer's last words count: its end is looked for before its bytes.
    status = CheckPeers(wait, look);
    if (wait.advance()) {
      status = absl::OkStatus();
      break;
    }
    if (!status.ok()) break;
    if (now >= wait.deadline) {
      std::string peers;
      for (int r = 0; r < segment_.size(); ++r) {
        if (wait.awaits(r)) absl::StrAppend(&peers, peers.empty() ? "" : ", ", r);
      }
      status = absl::DeadlineExceededError(absl::StrCat("no answer in time from rank ", peers));
      break;
    }
    parked.WaitWhile(wait.parked, std::min(wait.deadline, next_look) - now);
  }
  parked.Store(kAwake);
  return status;
}

absl::Status ShmWaiter::CheckPeers(const Wait& wait, bool look_at_processes) const {
  if (absl::Status failure = GroupFailure(); !failure.ok()) return failure;
  for (int r = 0; r < segment_.size(); ++r) {
    if (!wait.needs(r)) continue;
    ShmRank& peer = segment_.rank(r);
    const std::uint32_t state = peer.state.Load();
    if (state == kRankLeft) return absl::UnavailableError(absl::StrCat("rank ", r, " has left"));
    if (look_at_processes && state == kRankJoined && HasDied(peer.process)) {
      return absl::UnavailableError(
          absl::StrCat("rank ", r, " (process ", peer.process.pid, ") has died"));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
