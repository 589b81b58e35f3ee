#include "services/watch/hang_detector.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sluice {

uint64_t HangDetector::Begin(const char* what, int size, SteadyTime now) {
  const StepTimes& times = times_.try_emplace(what, least_).first->second;
  works_.emplace(next_work_, Work{what, size, now, moving_, times.Bound(size)});
  return next_work_++;
}

void HangDetector::End(uint64_t work, SteadyTime now) {
  const auto found = works_.find(work);
  if (found == works_.end()) return;
  const Work& ended = found->second;
  // Ticks tell the time roughly, the clock whether or not the process was running.
  const absl::Duration most = moving_ - ended.begun_at + interval() * 2;
  times_.at(ended.what).Completed(ended.size, std::min(now - ended.begun, most));
  works_.erase(found);
}

HangDetector::State HangDetector::Tick(SteadyTime now) {
  if (last_tick_ != SteadyTime()) moving_ += std::min(now - last_tick_, interval() * 2);
  last_tick_ = now;
  State state = State::kMoving;
  for (const auto& [id, work] : works_) {
    const absl::Duration over = moving_ - work.begun_at - work.bound;
    if (over > absl::ZeroDuration()) state = std::max(state, State::kHangs);
    if (over > least_) return State::kStuck;
  }
  return state;
}

std::string HangDetector::Hanging() const {
  const Work* longest = nullptr;
  for (const auto& [id, work] : works_) {
    if (moving_ - work.begun_at <= work.bound) continue;
    if (longest == nullptr || work.begun_at < longest->begun_at) longest = &work;
  }
  if (longest == nullptr) return "";
  return absl::StrCat(longest->what, " of ", longest->size, " for ",
                      absl::FormatDuration(moving_ - longest->begun_at));
}

}  // namespace sluice
