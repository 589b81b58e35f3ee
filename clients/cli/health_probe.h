// Asks the grpc.health.v1 of one server after the other until each has answered SERVING.
// Thread-safe.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "clients/cli/event_fd.h"
#include "services/process/stop_signal.h"

namespace sluice {

class HealthProbe {
 public:
  // Starts asking the servers at `addresses`, on this host, from a thread of its own.
  explicit HealthProbe(std::vector<std::string> addresses);
  HealthProbe(const HealthProbe&) = delete;
  HealthProbe& operator=(const HealthProbe&) = delete;
  // Stops asking.
  ~HealthProbe();

  // Readable once all have.
  int fd() const { return serving_.fd(); }

 private:
  void Ask();

  const std::vector<std::string> addresses_;
  EventFd serving_;
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace sluice
