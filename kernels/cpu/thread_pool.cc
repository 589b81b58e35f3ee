#include "kernels/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "kernels/check.h"
#include "kernels/spin_pause.h"
#include "kernels/usable_cpus.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr nanoseconds kLongestSpin{50'000};
constexpr nanoseconds kShortestSpin{500};
constexpr int kPausesPerLookAtClock = 16;

void PinTo(int cpu, std::thread& thread) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  SLUICE_CHECK(pthread_setaffinity_np(thread.native_handle(), sizeof(only), &only) == 0);
}

// Spins until `done` or until `limit` has passed; says whether it is done.
template <class Done>
bool SpinUntil(nanoseconds limit, Done done) {
  if (done()) return true;
  if (limit.count() == 0) return false;
  const Clock::time_point start = Clock::now();
  do {
    for (int i = 0; i < kPausesPerLookAtClock; ++i) {
      SpinPause();
      if (done()) return true;
    }
  } while (Clock::now() - start < limit);
  return false;
}

bool IsOpen(uint32_t gate) { return gate % 2 == 1; }

}  // namespace

ThreadPool::ThreadPool(int num_threads, absl::Span<const int> cpus) {
  SLUICE_CHECK(num_threads >= 0);
  if (num_threads == 0) {
    num_threads = cpus.empty() ? UsableCpus() : static_cast<int>(cpus.size());
  }
  may_spin_ = num_threads <= UsableCpus();
  workers_.reserve(num_threads - 1);
  for (int worker = 1; worker < num_threads; ++worker) {
    try {
      workers_.emplace_back([this, worker] { WorkerLoop(worker); });
    } catch (const std::system_error&) {
      break;  // the system gives no more: fewer threads do the same work, with the same bits
    }
    if (!cpus.empty()) PinTo(cpus[worker % cpus.size()], workers_.back());
  }
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  gate_.fetch_add(1);
  gate_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(int64_t count, Task task) {
  if (count <= 1 || workers_.empty()) {
    for (int64_t index = 0; index < count; ++index) task(index, 0);
    return;
  }
  task_ = &task;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  gate_.fetch_add(1);  // opens
  const auto wanted = static_cast<size_t>(count - 1);
  if (wanted < workers_.size()) {
    for (size_t i = 0; i < wanted; ++i) gate_.notify_one();
  } else {
    gate_.notify_all();
  }
  RunTasks(0);
  // From here on nobody enters: a worker announces itself before it looks at the gate, and we look
  // for announcements after shutting it, so one of the two sees the other.
  gate_.fetch_add(1);
  const bool alone =
      SpinUntil(may_spin_ ? kLongestSpin : nanoseconds(0), [this] { return inside_.load() == 0; });
  if (alone) return;
  for (uint32_t inside = inside_.load(); inside != 0; inside = inside_.load()) {
    inside_.wait(inside);
  }
}

void ThreadPool::RunTasks(int worker) {
  while (true) {
    const int64_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= count_) return;
    (*task_)(index, worker);
  }
}

void ThreadPool::WorkerLoop(int worker) {
  uint32_t served = 0;
  nanoseconds spin = may_spin_ ? kLongestSpin : nanoseconds(0);
  // The end opens the gate for good: a worker that was late for the last loop may have taken it for
  // one, and would wait for another.
  while (!stopping_) {
    const auto has_work = [this, served] {
      const uint32_t gate = gate_.load();
      return IsOpen(gate) && gate != served;
    };
    const Clock::time_point start = Clock::now();
    if (!SpinUntil(spin, has_work)) {
      for (uint32_t gate = gate_.load(); !IsOpen(gate) || gate == served; gate = gate_.load()) {
        gate_.wait(gate);
      }
    }
    if (stopping_) return;
    if (may_spin_) {
      const bool spinning_pays = Clock::now() - start < kLongestSpin;
      spin = spinning_pays ? kLongestSpin : std::max(spin / 2, kShortestSpin);
    }

    const uint32_t gate = gate_.load();
    inside_.fetch_add(1);
    if (IsOpen(gate) && gate_.load() == gate) RunTasks(worker);
    served = gate;
    if (inside_.fetch_sub(1) == 1) inside_.notify_one();
  }
}

}  // namespace sluice
