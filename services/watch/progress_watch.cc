#include "services/watch/progress_watch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "services/process/log.h"
#include "services/process/process_end.h"

namespace sluice {

ProgressWatch::ProgressWatch(Options options)
    : options_(std::move(options)), detector_(options_.hang_timeout), thread_([this] { Loop(); }) {}

ProgressWatch::~ProgressWatch() {
  stop_.Set();
  thread_.join();
}

void ProgressWatch::OnChanged(std::function<void(bool hangs)> tell) {
  absl::MutexLock lock(&tell_mutex_);
  tell_ = std::move(tell);
  if (tell_ != nullptr && hangs_) tell_(true);
}

void ProgressWatch::Loop() {
  absl::Duration interval;
  {
    absl::MutexLock lock(&mutex_);
    interval = detector_.interval();
  }
  while (!stop_.WaitFor(interval)) {
    HangDetector::State state;
    std::string what;
    {
      absl::MutexLock lock(&mutex_);
      state = detector_.Tick(SteadyTime::Now());
      what = detector_.Hanging();
    }
    if (state == HangDetector::State::kStuck) return options_.on_stuck(what);
    absl::MutexLock lock(&tell_mutex_);
    const bool hangs = state == HangDetector::State::kHangs;
    if (std::exchange(hangs_, hangs) == hangs) continue;
    Log(LogLevel::kWarning, options_.program, hangs ? "hangs" : "moves-again", {{"work", what}});
    if (tell_ != nullptr) tell_(hangs);
  }
}

ProgressWatch::Work::Work(ProgressWatch* watch, const char* what, size_t size) : watch_(watch) {
  if (watch_ == nullptr) return;
  const SteadyTime now = SteadyTime::Now();
  absl::MutexLock lock(&watch_->mutex_);
  const size_t most = std::numeric_limits<int>::max();
  id_ = watch_->detector_.Begin(what, static_cast<int>(std::min(size, most)), now);
}

ProgressWatch::Work::~Work() {
  if (watch_ == nullptr) return;
  const SteadyTime now = SteadyTime::Now();
  absl::MutexLock lock(&watch_->mutex_);
  watch_->detector_.End(id_, now);
}

std::unique_ptr<ProgressWatch> WatchProgress(const std::string& program,
                                             absl::Duration hang_timeout) {
  return std::make_unique<ProgressWatch>(ProgressWatch::Options{
      .program = program,
      .hang_timeout = hang_timeout,
      .on_stuck = [program](const std::string& what) { EndWithStacks(program, what); }});
}

}  // namespace sluice
