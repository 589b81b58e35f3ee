// A loop with a thread of its own, for what reads and writes files: connections do not wait for a
// disk. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "services/common/steady_time.h"
#include "services/gateway/http/loop.h"

namespace sluice::gateway {

class WorkLoop final : public http::Loop {
 public:
  WorkLoop() : thread_([this] { Run(); }) {}
  ~WorkLoop() override { Stop(); }
  WorkLoop(const WorkLoop&) = delete;
  WorkLoop& operator=(const WorkLoop&) = delete;

  void Post(std::function<void()> task) override { After(absl::ZeroDuration(), std::move(task)); }
  void After(absl::Duration delay, std::function<void()> task) override;

  // Waits for the task that runs, and drops the others. Not on the loop's own thread.
  void Stop();
  bool stopped();

 private:
  void Run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  // By when they are due, then in the order in which they came.
  std::map<std::pair<SteadyTime, uint64_t>, std::function<void()>> tasks_;
  uint64_t num_tasks_ = 0;  // so far
  bool stopping_ = false;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace sluice::gateway
