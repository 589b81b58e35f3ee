#include "kernels/communicator/shm_waiter.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;

constexpr int kLooksPerClockReading = 16;
constexpr Clock::duration kLookAtProcessesEvery = milliseconds(100);

}  // namespace

ShmWaiter::ShmWaiter(const ShmSegment& segment, int rank)
    : segment_(segment),
      rank_(rank),
      spin_({.ranks_on_host = segment.size(), .looks_per_clock_reading = kLooksPerClockReading}) {}

absl::Status ShmWaiter::GroupFailure() const {
  const std::uint32_t given_up_by = segment_.given_up_by().Load();
  if (given_up_by == 0) return absl::OkStatus();
  if (given_up_by > static_cast<std::uint32_t>(segment_.size())) {
    return absl::InternalError(
        absl::StrCat("shared memory is damaged: rank ", given_up_by - 1, " gave up"));
  }
  const int peer = static_cast<int>(given_up_by) - 1;
  // Nobody else promises that the text ends.
  char reason[sizeof(ShmRank::give_up_reason)];
  std::memcpy(reason, segment_.rank(peer).give_up_reason, sizeof(reason));
  reason[sizeof(reason) - 1] = '\0';
  return absl::UnavailableError(absl::StrCat("rank ", peer, " gave up: ", reason));
}

absl::Status ShmWaiter::Await(const Wait& wait) {
  return spin_.Find(wait.advance) ? absl::OkStatus() : Sleep(wait);
}

// Order matters: first announce the sleep, then look once more. A peer does the opposite, first its
// news and then a look at `parked`, so one of the two sees the other (see shm_word.h).
absl::Status ShmWaiter::Sleep(const Wait& wait) {
  ShmWord& parked = segment_.rank(rank_).parked;
  Clock::time_point next_look = Clock::now() + kLookAtProcessesEvery;
  absl::Status status;
  while (true) {
    parked.Exchange(wait.parked);
    const Clock::time_point now = Clock::now();
    const bool look = now >= next_look;
    if (look) next_look = now + kLookAtProcessesEvery;
    // A peer's last words count: its end is looked for before its bytes.
    status = CheckPeers(wait, look);
    if (wait.advance()) {
      status = absl::OkStatus();
      break;
    }
    if (!status.ok()) break;
    if (now >= wait.deadline.time()) {
      std::string peers;
      for (int r = 0; r < segment_.size(); ++r) {
        if (wait.awaits(r)) absl::StrAppend(&peers, peers.empty() ? "" : ", ", r);
      }
      status = absl::DeadlineExceededError(absl::StrCat("no answer in time from rank ", peers));
      break;
    }
    parked.WaitWhile(wait.parked,
                     absl::FromChrono(std::min(wait.deadline.time(), next_look) - now));
  }
  parked.Store(kAwake);
  return status;
}

absl::Status ShmWaiter::CheckAll() const {
  const auto other = [this](int peer) { return peer != rank_; };
  const auto nothing = [] { return false; };
  return CheckPeers(
      {.advance = nothing, .needs = other, .awaits = other, .deadline = Deadline::Never()},
      /*look_at_processes=*/true);
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
