// A request to stop as something that poll(2) can wait for.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <stop_token>
#include <utility>

namespace sluice {

class StopEvent {
 public:
  explicit StopEvent(std::stop_token stop) : on_stop_(std::move(stop), Signal{fd_.value}) {}
  StopEvent(const StopEvent&) = delete;
  StopEvent& operator=(const StopEvent&) = delete;

  // Readable from then on; -1, which poll passes over, where the system has no more descriptors.
  int fd() const { return fd_.value; }

 private:
  struct Descriptor {
    ~Descriptor() {
      if (value >= 0) close(value);
    }
    const int value = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  };
  struct Signal {
    void operator()() const {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof(one));
    }
    const int fd;
  };

  const Descriptor fd_;  // outlives who writes to it
  const std::stop_callback<Signal> on_stop_;
};

}  // namespace sluice
