// Keeps a set of processes running: starts them, starts again what ends or hangs, stops them all.
// One thread, which waits in poll(2) and nowhere else.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "clients/cli/health_watch.h"

namespace sluice {

struct ProcessSpec {
  std::string name;               // unique, such as "shard-0-1"
  std::vector<std::string> argv;  // argv[0] is a path
  std::string health;             // address of its grpc.health.v1; empty: it has none
  std::string termination_log;    // file where it says why it ends by itself; empty: nowhere
};

// One end of a process.
struct ProcessEnd {
  std::string name;
  pid_t pid = 0;
  std::string how;            // "exit status 1", "signal 9 (Killed)"
  std::string reason;         // what it said itself; may be empty
  absl::Duration restart_in;  // the pause before it is started again
};

struct SupervisorOptions {
  std::vector<ProcessSpec> processes;
  int stop_fd = -1;   // readable: stop everything and return
  int ready_fd = -1;  // readable: what the processes are for works
  // Reports processes that do not answer: they are killed and restarted. Null: no check.
  HealthWatch* health = nullptr;

  // Called from the supervising thread.
  std::function<void(const std::string& name, pid_t pid)> on_start;
  std::function<void(const ProcessEnd&)> on_end;        // not while stopping
  std::function<void(const SilentProcess&)> on_silent;  // before it is killed
  std::function<void()> on_ready;                       // once

  // A process that ended is started again after `first_pause`, which doubles up to `longest_pause`
  // each time that it lived for less than `stable_after`.
  absl::Duration first_pause = absl::Milliseconds(10);
  absl::Duration longest_pause = absl::Seconds(2);
  absl::Duration stable_after = absl::Seconds(10);
  // Before `ready_fd` is readable, a process that ends this often is given up.
  int most_early_ends = 5;
  // When stopped, this process is told first and given so long to end, while the others are kept
  // running for it; empty: none.
  std::string stopped_first;
  absl::Duration stopped_first_grace = absl::ZeroDuration();
  // How long processes may take to end after SIGTERM before SIGKILL.
  absl::Duration grace = absl::Seconds(5);
};

// OK when stopped; ABORTED naming the process, its last end and why when it was given up; errors of
// ChildProcess::Start. No process is left when it returns, nor when the calling thread ends
// without that.
absl::Status Supervise(const SupervisorOptions& options);

}  // namespace sluice
