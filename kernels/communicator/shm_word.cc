#include "kernels/communicator/shm_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace sluice {

// Not FUTEX_PRIVATE: the waiter and the waker may be different processes.
void ShmWord::WaitWhile(std::uint32_t value, absl::Duration timeout) {
  const timespec relative = absl::ToTimespec(std::max(timeout, absl::ZeroDuration()));
  syscall(SYS_futex, &value_, FUTEX_WAIT, value, &relative, nullptr, 0);
}

void ShmWord::Wake() { syscall(SYS_futex, &value_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace sluice
