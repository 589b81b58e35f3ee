#include "kernels/device/illegal_instruction.h"

#include <csetjmp>
#include <csignal>

#include "kernels/check.h"

namespace sluice {
namespace {

// Where the thread goes on; null while it runs nothing that is to be caught.
thread_local sigjmp_buf* resume = nullptr;
struct sigaction previous;

void OnIllegalInstruction(int signal, siginfo_t*, void*) {
  if (resume != nullptr) siglongjmp(*resume, 1);
  // Another thread's: what would have happened happens when it is met again.
  sigaction(signal, &previous, nullptr);
}

}  // namespace

absl::Status CatchIllegalInstruction(absl::FunctionRef<absl::Status()> run) {
  struct sigaction action = {};
  action.sa_sigaction = OnIllegalInstruction;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  SLUICE_CHECK(sigaction(SIGILL, &action, &previous) == 0);
  sigjmp_buf here;
  absl::Status status = absl::UnimplementedError("illegal instruction");
  if (sigsetjmp(here, 1) == 0) {
    resume = &here;
    status = run();
  }
  resume = nullptr;
  sigaction(SIGILL, &previous, nullptr);
  return status;
}

}  // namespace sluice
