#include "clients/cli/supervisor.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/common/steady_time.h"
#include "services/process/child_process.h"

namespace sluice {
namespace {

// A process and, while it is not running, when it will be.
struct Ward {
  const ProcessSpec* spec;
  std::optional<ChildProcess> child;
  SteadyTime started;
  SteadyTime next_start;
  absl::Duration pause;
  int ends = 0;
};

// A status that says so in its first words.
bool IsAboutConfiguration(const std::string& reason) {
  return absl::StartsWith(reason, "INVALID_ARGUMENT: ") || absl::StartsWith(reason, "NOT_FOUND: ");
}

// What a process has left in its termination log, which is emptied for the next one.
std::string TakeReason(const std::string& termination_log) {
  if (termination_log.empty()) return "";
  std::ostringstream text;
  text << std::ifstream(termination_log).rdbuf();
  std::remove(termination_log.c_str());
  return std::string(absl::StripSuffix(text.str(), "\n"));
}

int PollTimeout(SteadyTime until) {
  if (until == SteadyTime::InfiniteFuture()) return -1;
  // Rounded up: rounded down, the last millisecond would be spent polling again and again.
  const double milliseconds = std::ceil(absl::ToDoubleMilliseconds(until - SteadyTime::Now()));
  return static_cast<int>(std::clamp(milliseconds, 0.0, 1e9));
}

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options) : options_(options) {
    for (const ProcessSpec& spec : options_.processes) {
      wards_.push_back({.spec = &spec, .pause = options_.first_pause});
    }
  }

  absl::Status Run() {
    absl::Status status = absl::OkStatus();
    while (status.ok() && !stop_) {
      status = StartDue();
      if (status.ok()) status = WaitForNext(SteadyTime::InfiniteFuture());
    }
    if (status.ok()) StopFirst();
    StopAll();
    return status;
  }

 private:
  absl::Status StartDue() {
    for (Ward& ward : wards_) {
      if (ward.child.has_value() || ward.next_start > SteadyTime::Now()) continue;
      absl::StatusOr<ChildProcess> child = ChildProcess::Start(ward.spec->argv);
      if (!child.ok()) return child.status();
      ward.child.emplace(*std::move(child));
      ward.started = SteadyTime::Now();
      if (options_.health != nullptr) options_.health->Started(ward.spec->name, ward.child->pid());
      if (options_.on_start) options_.on_start(ward.spec->name, ward.child->pid());
    }
    return absl::OkStatus();
  }

  // Waits until something happens, a process is to be started or `until`, and deals with all that
  // happened.
  absl::Status WaitForNext(SteadyTime until) {
    std::vector<pollfd> fds = {{stop_ ? -1 : options_.stop_fd, POLLIN, 0},
                               {ready_ ? -1 : options_.ready_fd, POLLIN, 0},
                               {options_.health ? options_.health->fd() : -1, POLLIN, 0}};
    SteadyTime next_start = until;
    for (const Ward& ward : wards_) {
      fds.push_back({ward.child ? ward.child->pidfd() : -1, POLLIN, 0});
      if (!ward.child) next_start = std::min(next_start, ward.next_start);
    }
    if (poll(fds.data(), fds.size(), PollTimeout(next_start)) <= 0) return absl::OkStatus();
    if (fds[0].revents != 0) {
      stop_ = true;
      return absl::OkStatus();
    }
    if (fds[1].revents != 0) {
      ready_ = true;
      if (options_.on_ready) options_.on_ready();
    }
    if (fds[2].revents != 0) KillSilent();
    for (size_t i = 0; i < wards_.size(); ++i) {
      if (fds[i + 3].revents == 0) continue;
      if (absl::Status status = HandleEnd(wards_[i]); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Their ends follow.
  void KillSilent() {
    for (const SilentProcess& silent : options_.health->TakeSilent()) {
      for (const Ward& ward : wards_) {
        if (!ward.child || ward.child->pid() != silent.pid) continue;
        if (options_.on_silent) options_.on_silent(silent);
        ward.child->Signal(SIGKILL);
      }
    }
  }

  absl::Status HandleEnd(Ward& ward) {
    const pid_t pid = ward.child->pid();
    const std::string how = ward.child->Reap();
    const std::string reason = TakeReason(ward.spec->termination_log);
    ward.child.reset();
    if (stop_ && ward.spec->name == options_.stopped_first) {
      ward.next_start = SteadyTime::InfiniteFuture();
      return absl::OkStatus();
    }
    ++ward.ends;
    // The same flags and files fail the same way again.
    if (!ready_ && IsAboutConfiguration(reason)) {
      return absl::InvalidArgumentError(absl::StrCat(ward.spec->name, ": ", reason));
    }
    if (!ready_ && ward.ends >= options_.most_early_ends) {
      return absl::AbortedError(absl::StrCat(
          ward.spec->name, " ended ", ward.ends, " times before the pipeline was ready, last with ",
          how, reason.empty() ? "; what it said is above" : ": ", reason));
    }
    const SteadyTime now = SteadyTime::Now();
    if (now - ward.started >= options_.stable_after) ward.pause = options_.first_pause;
    ward.next_start = now + ward.pause;
    if (options_.on_end) options_.on_end({ward.spec->name, pid, how, reason, ward.pause});
    ward.pause = std::min(2 * ward.pause, options_.longest_pause);
    return absl::OkStatus();
  }

  // Whoever it serves is served to the end: what it needs for that is still started again.
  void StopFirst() {
    for (const Ward& ward : wards_) {
      if (ward.spec->name != options_.stopped_first || !ward.child) continue;
      ward.child->Signal(SIGTERM);
      const SteadyTime deadline = SteadyTime::Now() + options_.stopped_first_grace;
      while (ward.child && SteadyTime::Now() < deadline) {
        if (!StartDue().ok() || !WaitForNext(deadline).ok()) return;
      }
    }
  }

  void StopAll() {
    for (const Ward& ward : wards_) {
      if (ward.child) ward.child->Signal(SIGTERM);
    }
    const SteadyTime deadline = SteadyTime::Now() + options_.grace;
    while (AnyLeft() && SteadyTime::Now() < deadline) ReapEnded(deadline);
    // What is left is killed by its destructor.
    wards_.clear();
  }

  bool AnyLeft() const {
    return std::any_of(wards_.begin(), wards_.end(),
                       [](const Ward& ward) { return ward.child.has_value(); });
  }

  // Waits until a process has ended, at most until `deadline`.
  void ReapEnded(SteadyTime deadline) {
    std::vector<pollfd> fds;
    for (const Ward& ward : wards_) {
      fds.push_back({ward.child ? ward.child->pidfd() : -1, POLLIN, 0});
    }
    poll(fds.data(), fds.size(), PollTimeout(deadline));
    for (size_t i = 0; i < wards_.size(); ++i) {
      if (fds[i].revents != 0) {
        wards_[i].child->Reap();
        wards_[i].child.reset();
      }
    }
  }

  const SupervisorOptions& options_;
  std::vector<Ward> wards_;
  bool ready_ = false;
  bool stop_ = false;
};

}  // namespace

absl::Status Supervise(const SupervisorOptions& options) { return Supervisor(options).Run(); }

}  // namespace sluice
