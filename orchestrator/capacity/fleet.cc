#include "orchestrator/capacity/fleet.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "orchestrator/capacity/replica_group.h"

namespace sluice {
namespace {

// Adds up what parts of a fleet did, in their order, as they come. Thread-safe.
class OrderedSum {
 public:
  explicit OrderedSum(int num_parts) : waiting_(static_cast<size_t>(num_parts)) {}

  void Add(int part, FleetFigures figures) {
    const absl::MutexLock lock(&mutex_);
    waiting_[static_cast<size_t>(part)] = std::move(figures);
    while (next_ < waiting_.size() && waiting_[next_].has_value()) {
      const FleetFigures next = *std::exchange(waiting_[next_++], std::nullopt);
      sum_.Add(next);
      sum_.busy.insert(sum_.busy.end(), next.busy.begin(), next.busy.end());
    }
  }
  FleetFigures Take() {
    const absl::MutexLock lock(&mutex_);
    return std::move(sum_);
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::optional<FleetFigures>> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  FleetFigures sum_ ABSL_GUARDED_BY(mutex_);
};

// In turns each replica's requests are known beforehand: replicas run one after another, each in
// what a processor's cache holds.
FleetFigures SimulateApart(const Trace& trace, const FleetOptions& options) {
  OrderedSum sum(options.num_replicas);
  std::atomic<int> next = 0;
  const auto work = [&] {
    for (int replica = next++; replica < options.num_replicas; replica = next++) {
      sum.Add(replica, ReplicaGroup(trace, options, 1, static_cast<size_t>(replica),
                                    static_cast<size_t>(options.num_replicas))
                           .Run());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < std::min(options.num_threads, options.num_replicas); ++i) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) thread.join();
  return sum.Take();
}

// From seconds and blocks to parts of the whole.
void SetParts(const FleetOptions& options, FleetFigures& figures) {
  for (double& busy : figures.busy) busy = figures.seconds > 0 ? busy / figures.seconds : 0;
  const double blocks =
      static_cast<double>(options.num_blocks) * static_cast<double>(options.num_replicas);
  for (FleetWindow& window : figures.windows) {
    window.used_blocks /= blocks;
    figures.mean_used_blocks += window.used_blocks / static_cast<double>(figures.windows.size());
    figures.most_used_blocks = std::max(figures.most_used_blocks, window.used_blocks);
  }
}

}  // namespace

FleetFigures SimulateFleet(const Trace& trace, const FleetOptions& options) {
  const bool apart = options.routing == FleetRouting::kTurns && options.losses.empty();
  FleetFigures figures = apart ? SimulateApart(trace, options)
                               : ReplicaGroup(trace, options, options.num_replicas, 0, 1).Run();
  SetParts(options, figures);
  return figures;
}

std::optional<int> FewestThatKeep(int most, const std::function<bool(int)>& keeps) {
  int fails = 0;
  int holds = 1;
  while (!keeps(holds)) {
    if (holds == most) return std::nullopt;
    fails = holds;
    holds = std::min(2 * holds, most);
  }
  while (holds - fails > 1) {
    const int middle = fails + (holds - fails) / 2;
    (keeps(middle) ? holds : fails) = middle;
  }
  return holds;
}

}  // namespace sluice
