// Processes that belong together, such as those of one model: supervised on a thread of their own,
// started and ended as often as is asked for. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "clients/cli/event_fd.h"
#include "clients/cli/supervisor.h"

namespace sluice {

struct ProcessGroupOptions {
  std::string name;  // for the log; may be empty
  std::vector<ProcessSpec> processes;
  std::vector<std::string> ready_when;  // the addresses of grpc.health.v1 that all say SERVING then
  absl::Duration hang_timeout = absl::Seconds(2);
  // As SupervisorOptions has them.
  std::string stopped_first;
  absl::Duration stopped_first_grace = absl::ZeroDuration();
};

// Options for Supervise() that log each start, end and kill of a process. The caller sets `health`, `stop_fd`,
// `ready_fd` and `on_ready`.
SupervisorOptions LoggedSupervision(const ProcessGroupOptions& options);

// Where those that have a health answer for it, by name.
std::map<std::string, std::string> HealthAddresses(const std::vector<ProcessSpec>& processes);

class ProcessGroup {
 public:
  enum class State { kEnded, kStarting, kRunning, kEnding };

  // `on_change` is called from the group's thread once they run, and once they have ended.
  ProcessGroup(ProcessGroupOptions options, std::function<void()> on_change);
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  // Ends the processes.
  ~ProcessGroup();

  // Has the processes run; where they are just ending, once they have.
  void Start();
  // Has them end, at leisure.
  void Stop();

  State state() const;
  // Why they ended last: OK where that was asked for, else as Supervise() says it.
  absl::Status last_end() const;

 private:
  void Run();
  absl::Status SuperviseOnce();

  const ProcessGroupOptions options_;
  const std::function<void()> on_change_;
  EventFd stop_;
  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kEnded;
  bool is_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status last_end_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses what is above
};

}  // namespace sluice
