// Asks a server's grpc.health.v1 until it answers SERVING. Thread-safe.
#pragma once

#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "clients/cli/event_fd.h"

namespace sluice {

class HealthProbe {
 public:
  // Starts asking the server at `address`, a loopback one, from a thread of its own.
  explicit HealthProbe(std::string address);
  HealthProbe(const HealthProbe&) = delete;
  HealthProbe& operator=(const HealthProbe&) = delete;
  // Stops asking.
  ~HealthProbe();

  // Readable once the server has answered SERVING.
  int fd() const { return serving_.fd(); }

 private:
  void Ask();

  const std::string address_;
  EventFd serving_;
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace sluice
