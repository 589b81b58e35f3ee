// Keeps SIGPIPE, which Gloo does not suppress, from ending the process where a peer has closed its
// connection: Gloo then sees the error of its write instead. Changes this thread alone, and threads
// that it starts meanwhile, not what the process has decided about the signal.
#pragma once

#include <signal.h>

namespace sluice {

// Blocks the signal while it lives, and discards one that came meanwhile. Nests.
class SigpipeGuard {
 public:
  SigpipeGuard();
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;
  ~SigpipeGuard();

 private:
  sigset_t earlier_mask_;
};

}  // namespace sluice
