#include "kernels/cpu/thread_pool.h"

#include <sched.h>

#include <atomic>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/thread_limit.h"

namespace sluice {
namespace {

TEST(ThreadPoolTest, CountsItsCaller) {
  EXPECT_EQ(ThreadPool(1).num_threads(), 1);
  EXPECT_EQ(ThreadPool(3).num_threads(), 3);
  EXPECT_GE(ThreadPool(0).num_threads(), 1);
}

TEST(ThreadPoolTest, KeepsItsThreadsToTheCpusNamed) {
  const int cpu = sched_getcpu();
  ThreadPool pool(3, {cpu});
  std::atomic<int> helpers{0};
  while (helpers == 0) {
    pool.ParallelFor(100, [&](int64_t, int worker) {
      if (worker == 0) return;
      cpu_set_t set;
      ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
      EXPECT_EQ(CPU_COUNT(&set), 1);
      EXPECT_TRUE(CPU_ISSET(cpu, &set));
      helpers.fetch_add(1);
    });
  }
  EXPECT_EQ(ThreadPool(0, {cpu, cpu, cpu}).num_threads(), 3);
}

TEST(ThreadPoolTest, CallsEveryIndexOnce) {
  for (const int num_threads : {1, 2, 3, 8}) {
    ThreadPool pool(num_threads);
    for (const int64_t count : {0, 1, 2, 3, 7, 100, 5000}) {
      std::vector<std::atomic<int>> calls(count);
      pool.ParallelFor(count, [&](int64_t index, int) { calls[index].fetch_add(1); });
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(calls[i].load(), 1) << i << " of " << count << ", " << num_threads << " threads";
      }
    }
  }
}

TEST(ThreadPoolTest, DoesWithTheThreadsThatTheSystemGives) {
  if (!testing::CanLimitThreads()) GTEST_SKIP() << "sanitizers start threads by their own means";
  for (const int given : {0, 2}) {
    const testing::ThreadLimit limit(given);
    ThreadPool pool(8);
    EXPECT_EQ(pool.num_threads(), 1 + given);
    std::vector<std::atomic<int>> calls(100);
    pool.ParallelFor(calls.size(), [&](int64_t index, int) { calls[index].fetch_add(1); });
    for (const std::atomic<int>& count : calls) EXPECT_EQ(count.load(), 1);
  }
}

// What one loop writes without locks, the next reads: every return is a meeting of all threads.
TEST(ThreadPoolTest, LoopsFollowEachOther) {
  constexpr int64_t kSize = 64;
  constexpr int kLoops = 20000;
  ThreadPool pool(4);
  std::vector<int64_t> from(kSize, 0), to(kSize, 0);
  for (int loop = 0; loop < kLoops; ++loop) {
    pool.ParallelFor(kSize, [&](int64_t i, int) { to[i] = from[(i + 1) % kSize] + 1; });
    std::swap(from, to);
  }
  EXPECT_EQ(std::accumulate(from.begin(), from.end(), int64_t{0}), kSize * kLoops);
}

TEST(ThreadPoolTest, WorkersAtWorkAtOneTimeHaveDifferentNumbers) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  std::vector<std::atomic<bool>> busy(kThreads);
  std::atomic<int> clashes{0};
  pool.ParallelFor(20000, [&](int64_t, int worker) {
    if (worker < 0 || worker >= kThreads || busy[worker].exchange(true)) {
      clashes.fetch_add(1);
      return;
    }
    busy[worker].store(false);
  });
  EXPECT_EQ(clashes.load(), 0);
}

// Two tasks that wait for each other end only where two threads work on them.
TEST(ThreadPoolTest, SleepingThreadsWakeUp) {
  ThreadPool pool(2);
  for (int loop = 0; loop < 200; ++loop) {
    if (loop % 20 == 0) {  // long enough for the worker to fall asleep
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    }
    std::atomic<int> arrived{0};
    pool.ParallelFor(2, [&](int64_t, int) {
      arrived.fetch_add(1);
      while (arrived.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
  }
}

TEST(ThreadPoolTest, TheCallerTakesPart) {
  ThreadPool pool(2);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> caller_worked{false};
  while (!caller_worked) {
    pool.ParallelFor(100, [&](int64_t, int worker) {
      if (std::this_thread::get_id() != caller) return;
      EXPECT_EQ(worker, 0);
      caller_worked = true;
    });
  }
}

TEST(ThreadPoolTest, SeveralPoolsShareTheMachine) {
  std::vector<std::thread> owners;
  std::atomic<int64_t> sum{0};
  for (int owner = 0; owner < 4; ++owner) {
    owners.emplace_back([&sum] {
      ThreadPool pool(3);
      for (int loop = 0; loop < 500; ++loop) {
        pool.ParallelFor(5, [&](int64_t index, int) { sum.fetch_add(index); });
      }
    });
  }
  for (std::thread& owner : owners) owner.join();
  EXPECT_EQ(sum.load(), 4 * 500 * 10);
}

// Workers that wake late for the last loop find the gate opened by the end.
TEST(ThreadPoolTest, EndsRightAfterALoop) {
  for (int i = 0; i < 3000; ++i) {
    ThreadPool pool(2 + i % 7);
    for (int loop = 0; loop < i % 5; ++loop) pool.ParallelFor(8, [](int64_t, int) {});
  }
}

TEST(ThreadPoolTest, EndsWhileItsThreadsSpinOrSleep) {
  for (int i = 0; i < 100; ++i) {
    ThreadPool pool(4);
    if (i % 2 == 0) pool.ParallelFor(4, [](int64_t, int) {});
  }
}

}  // namespace
}  // namespace sluice
