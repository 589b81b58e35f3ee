#include "kernels/communicator/sigpipe_guard.h"

#include <cerrno>
#include <ctime>

namespace sluice {
namespace {

sigset_t Sigpipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

}  // namespace

SigpipeGuard::SigpipeGuard() {
  const sigset_t sigpipe = Sigpipe();
  pthread_sigmask(SIG_BLOCK, &sigpipe, &earlier_mask_);
}

SigpipeGuard::~SigpipeGuard() {
  if (sigismember(&earlier_mask_, SIGPIPE) == 1) return;
  // The kernel sends SIGPIPE to the thread that wrote, so what is pending is this thread's.
  const sigset_t sigpipe = Sigpipe();
  const timespec at_once = {};
  while (sigtimedwait(&sigpipe, nullptr, &at_once) == -1 && errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &earlier_mask_, nullptr);
}

}  // namespace sluice
