// Asks a server's grpc.health.v1 until it answers SERVING, and whatever else is to be up with it.
// Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "clients/cli/event_fd.h"
#include "services/common/stop_signal.h"

namespace sluice {

class HealthProbe {
 public:
  // Starts asking the server at `address`, on this host, from a thread of its own, and after it
  // `also`, where given, until that is true.
  explicit HealthProbe(std::string address, std::function<bool()> also = nullptr);
  HealthProbe(const HealthProbe&) = delete;
  HealthProbe& operator=(const HealthProbe&) = delete;
  // Stops asking.
  ~HealthProbe();

  // Readable once all are up.
  int fd() const { return serving_.fd(); }

 private:
  void Ask();

  const std::string address_;
  const std::function<bool()> also_;
  EventFd serving_;
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace sluice
