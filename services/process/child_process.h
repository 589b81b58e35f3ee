// A child process that does not outlive its parent, and what starts this program once more as one.
// Not thread-safe.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

// The path by which this program, whose main() was given `argv0`, can be started again: where its
// file lies, under the name that it was called by, if there is such a program (a script beside the
// loader that runs it, say), else its file.
std::string OwnProgram(const char* argv0);

// Files that become a child's stdin and stdout; -1: empty, and the parent's stderr.
struct ChildStreams {
  int in = -1;
  int out = -1;
};

class ChildProcess {
 public:
  // Starts argv[0], a path, in a process group of its own, so that Ctrl-C at the terminal reaches
  // the parent alone. stdin and stdout are `streams`; stderr is the parent's. The child is
  // killed when the thread that called this ends, however it ends: call it from one that lives as
  // long as the program. Safe while other threads run.
  // NOT_FOUND where argv[0] can't be executed, RESOURCE_EXHAUSTED where no process can be made.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& argv,
                                            ChildStreams streams = {});

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  // Kills it and waits for its end, where it was not reaped.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Readable (POLLIN) once the process has ended.
  int pidfd() const { return pidfd_; }

  void Signal(int signal) const;

  // Waits for the end and says how it was: "exit status 3", "signal 9 (Killed)". Call it once.
  std::string Reap();

 private:
  ChildProcess(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}
  void Release();

  pid_t pid_ = -1;  // -1: reaped or moved from
  int pidfd_ = -1;
};

}  // namespace sluice
