// Asks processes of this host for their health over and over, and names those that do not answer:
// they are stopped, or stuck beyond ending themselves. What they answer does not matter, and one
// that does not listen (yet, or any more) is not meant. Thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "clients/cli/event_fd.h"
#include "services/process/stop_signal.h"

namespace sluice {

// A process that does not answer.
struct SilentProcess {
  std::string name;
  pid_t pid = 0;
};

class HealthWatch {
 public:
  // `addresses` by the processes' names. A process is silent that has not answered for so long;
  // for twice as long after it was silent, and so on until it answers: the machine may be slow. One
  // that takes processor time meanwhile is waited for nine times as long: it may have tens of
  // thousands of calls to answer first.
  HealthWatch(const std::map<std::string, std::string>& addresses, absl::Duration hang_timeout);
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;
  // Returns at once if the processes have ended.
  ~HealthWatch();

  // `name` has a new process from now on. Nothing is done for one without an address.
  void Started(const std::string& name, pid_t pid);

  // Readable (POLLIN) while TakeSilent() has something.
  int fd() const { return news_.fd(); }
  std::vector<SilentProcess> TakeSilent();

 private:
  struct Watched {
    std::string name;
    std::string address;
    pid_t pid = 0;  // guarded by mutex_
    std::thread thread;
  };

  void Ask(Watched& watched);

  const absl::Duration hang_timeout_;
  EventFd news_;
  StopSignal stop_;
  absl::Mutex mutex_;
  std::vector<SilentProcess> silent_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Watched>> watched_;
};

}  // namespace sluice
