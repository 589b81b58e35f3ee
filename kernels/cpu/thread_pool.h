// A fixed set of threads that share loops with their caller.
//
// Built for many short loops in a row: a waiting thread first spins for a moment, so that a loop
// starts within a few microseconds, then sleeps, so that an idle pool costs nothing. How long it
// spins follows from how soon work came before; a pool larger than the machine never spins. No
// allocation per loop. A thread that wakes late simply misses the loop: nobody waits for it.
//
// ParallelFor() may be called by one thread at a time, and not from inside a task.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace sluice {

class ThreadPool {
 public:
  // One index of a loop. `worker` in [0, num_threads()) tells apart the threads at work at one
  // time, for memory that each of them owns; the caller of ParallelFor() is worker 0.
  using Task = absl::FunctionRef<void(int64_t index, int worker)>;

  // `num_threads` counts the caller: num_threads - 1 threads are started. 0 means one for each of
  // `cpus`, or, where that is empty, one per CPU that this process may keep busy
  // (UsableCpus()).
  // Worker i >= 1 stays on CPU cpus[i % cpus.size()]; where the caller runs is its own affair.
  // Empty: the workers run wherever the system puts them. REQUIRES: the process may use the CPUs.
  explicit ThreadPool(int num_threads, absl::Span<const int> cpus = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls `task` once for every index in [0, count), in no fixed order, and returns when all calls
  // have. With one index, or one thread, it all happens on the caller.
  void ParallelFor(int64_t count, Task task);

 private:
  void WorkerLoop(int worker);
  void RunTasks(int worker);

  // Constant after construction.
  std::vector<std::thread> workers_;
  bool may_spin_ = true;

  // Written by the caller while the gate is shut and nobody is inside; read by those inside.
  const Task* task_ = nullptr;
  int64_t count_ = 0;

  // Odd while a loop is open to workers. Its value names the loop.
  alignas(64) std::atomic<uint32_t> gate_{0};
  std::atomic<bool> stopping_{false};
  // Workers that are inside the gate, or about to look whether they may enter.
  alignas(64) std::atomic<uint32_t> inside_{0};
  alignas(64) std::atomic<int64_t> next_{0};
};

}  // namespace sluice
