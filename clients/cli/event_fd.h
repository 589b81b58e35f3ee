// A flag that can be waited for beside other file descriptors (eventfd(2)). Thread-safe.
#pragma once

namespace sluice {

class EventFd {
 public:
  EventFd();
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;
  ~EventFd();

  void Set();
  void Clear();
  // Readable (POLLIN) while set.
  int fd() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace sluice
