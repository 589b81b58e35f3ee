#include "clients/cli/process_group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/cli/health_probe.h"
#include "clients/cli/health_watch.h"
#include "services/process/log.h"

namespace sluice {
namespace {

// "MODEL/shard-0-0" where there are several models.
std::string Named(const std::string& group, const std::string& process) {
  return group.empty() ? process : absl::StrCat(group, "/", process);
}

}  // namespace

std::map<std::string, std::string> HealthAddresses(const std::vector<ProcessSpec>& processes) {
  std::map<std::string, std::string> addresses;
  for (const ProcessSpec& process : processes) {
    if (!process.health.empty()) addresses[process.name] = process.health;
  }
  return addresses;
}

SupervisorOptions LoggedSupervision(const ProcessGroupOptions& options) {
  return {.processes = options.processes,
          .on_start =
              [group = options.name](const std::string& name, pid_t pid) {
                Log(LogLevel::kInfo, "up", "process-started",
                    {{"process", Named(group, name)}, {"pid", pid}});
              },
          .on_end =
              [group = options.name](const ProcessEnd& end) {
                Log(LogLevel::kWarning, "up", "process-restarts",
                    {{"process", Named(group, end.name)},
                     {"pid", end.pid},
                     {"ended_with", end.how},
                     {"reason", end.reason},
                     {"restart_in", absl::FormatDuration(end.restart_in)}});
              },
          .on_silent =
              [group = options.name](const SilentProcess& silent) {
                Log(LogLevel::kWarning, "up", "process-does-not-answer",
                    {{"process", Named(group, silent.name)},
                     {"pid", silent.pid},
                     {"effect", "it is killed"}});
              },
          .stopped_first = options.stopped_first,
          .stopped_first_grace = options.stopped_first_grace};
}

ProcessGroup::ProcessGroup(ProcessGroupOptions options, std::function<void()> on_change)
    : options_(std::move(options)), on_change_(std::move(on_change)), thread_([this] { Run(); }) {}

ProcessGroup::~ProcessGroup() {
  {
    absl::MutexLock lock(&mutex_);
    is_closing_ = true;
  }
  Stop();
  thread_.join();
}

void ProcessGroup::Start() {
  absl::MutexLock lock(&mutex_);
  is_wanted_ = true;
  if (state_ != State::kEnded) return;
  state_ = State::kStarting;
  last_end_ = absl::OkStatus();
}

void ProcessGroup::Stop() {
  absl::MutexLock lock(&mutex_);
  is_wanted_ = false;
  if (state_ == State::kEnded) return;
  state_ = State::kEnding;
  stop_.Set();
}

ProcessGroup::State ProcessGroup::state() const {
  absl::MutexLock lock(&mutex_);
  return state_;
}

absl::Status ProcessGroup::last_end() const {
  absl::MutexLock lock(&mutex_);
  return last_end_;
}

void ProcessGroup::Run() {
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return is_wanted_ || is_closing_ || state_ == State::kEnding;
  };
  while (true) {
    bool starts = true;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      if (is_closing_) return;
      starts = is_wanted_;  // else told to end before anything was started
      if (starts) {
        stop_.Clear();
        state_ = State::kStarting;
      }
    }
    absl::Status end = starts ? SuperviseOnce() : absl::OkStatus();
    {
      absl::MutexLock lock(&mutex_);
      // After a failure the processes stay ended until the next Start().
      if (!end.ok()) is_wanted_ = false;
      last_end_ = std::move(end);
      state_ = State::kEnded;
    }
    on_change_();
  }
}

absl::Status ProcessGroup::SuperviseOnce() {
  const HealthProbe health(options_.ready_when);
  HealthWatch watch(HealthAddresses(options_.processes), options_.hang_timeout);
  SupervisorOptions supervision = LoggedSupervision(options_);
  supervision.stop_fd = stop_.fd();
  supervision.ready_fd = health.fd();
  supervision.health = &watch;
  supervision.on_ready = [this] {
    {
      absl::MutexLock lock(&mutex_);
      if (state_ == State::kStarting) state_ = State::kRunning;
    }
    on_change_();
  };
  return Supervise(supervision);
}

}  // namespace sluice
