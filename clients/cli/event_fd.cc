#include "clients/cli/event_fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "kernels/check.h"

namespace sluice {

EventFd::EventFd() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { SLUICE_CHECK(fd_ >= 0); }

EventFd::~EventFd() { close(fd_); }

void EventFd::Set() { eventfd_write(fd_, 1); }

void EventFd::Clear() {
  eventfd_t ignored = 0;
  eventfd_read(fd_, &ignored);
}

}  // namespace sluice
