// sluice-simulate: runs seeds of the simulation, and shows what happened in one that fails.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "services/options/flags.h"
#include "services/process/log.h"
#include "tests/simulation/simulation.h"

namespace {

using sluice::simulation::Simulate;
using sluice::simulation::SimulationOptions;
using sluice::simulation::SimulationResult;

// Runs the seed again, with its history. Returns the exit code.
int Replay(SimulationOptions options) {
  options.history = true;
  const uint64_t seed = options.seed;
  const SimulationResult result = Simulate(options);
  for (const std::string& line : result.history) std::printf("%s\n", line.c_str());
  if (result.fault.empty()) {
    std::printf("seed %llu: fine\n", static_cast<unsigned long long>(seed));
    return 0;
  }
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), result.fault.c_str());
  return 1;
}

struct Totals {
  absl::Mutex mutex;
  SimulationResult sums ABSL_GUARDED_BY(mutex);
  uint64_t failing_seed ABSL_GUARDED_BY(mutex) = 0;

  void Add(uint64_t seed, const SimulationResult& result) {
    absl::MutexLock lock(&mutex);
    sums.num_requests += result.num_requests;
    sums.num_faults += result.num_faults;
    sums.num_steps += result.num_steps;
    sums.num_recoveries += result.num_recoveries;
    sums.num_kept += result.num_kept;
    sums.healed_after = std::max(sums.healed_after, result.healed_after);
    const bool first = failing_seed == 0 || seed < failing_seed;
    if (!result.fault.empty() && first) failing_seed = seed;
  }
  uint64_t failed() {
    absl::MutexLock lock(&mutex);
    return failing_seed;
  }
};

int RunSeeds(const SimulationOptions& options, uint64_t first, uint64_t count, int num_threads) {
  Totals totals;
  std::atomic<uint64_t> next = first;
  std::vector<std::thread> threads;
  const absl::Time start = absl::Now();
  for (int i = 0; i < num_threads; ++i) {
    threads.emplace_back([&] {
      for (uint64_t seed = next++; seed < first + count && totals.failed() == 0; seed = next++) {
        SimulationOptions run = options;
        run.seed = seed;
        totals.Add(seed, Simulate(run));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (totals.failed() != 0) {
    SimulationOptions failed = options;
    failed.seed = totals.failed();
    return Replay(failed);
  }
  absl::MutexLock lock(&totals.mutex);
  std::printf(
      "%llu seeds fine in %s: %lld requests, %lld faults, %lld steps, %lld recoveries, %lld of "
      "them with all blocks; healed at most %s after the last fault\n",
      static_cast<unsigned long long>(count), absl::FormatDuration(absl::Now() - start).c_str(),
      static_cast<long long>(totals.sums.num_requests),
      static_cast<long long>(totals.sums.num_faults), static_cast<long long>(totals.sums.num_steps),
      static_cast<long long>(totals.sums.num_recoveries),
      static_cast<long long>(totals.sums.num_kept),
      absl::FormatDuration(totals.sums.healed_after).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seeds = 10'000, first_seed = 1;
  SimulationOptions options = {.seed = 0};
  int32_t threads = static_cast<int32_t>(std::thread::hardware_concurrency());
  sluice::FlagSet flags(
      "sluice-simulate", "[flags]",
      "Runs the orchestrator against a simulated network and simulated processes that crash, hang "
      "and come back, each seed another run. Exits with 1 at the first seed that fails, after "
      "printing its history.");
  flags.Add("seeds", "N", "How many seeds to run. Default 10000.", &seeds);
  flags.Add("first_seed", "S", "The first of them. Default 1.", &first_seed);
  flags.Add("seed", "S", "Run this seed alone and print its history.", &options.seed);
  flags.Add("beam_percent", "N",
            "How many in a hundred of the requests that generate are searches by beams. Another "
            "number makes other runs of the seeds. Default 12.",
            &options.beam_percent);
  flags.Add("threads", "N", "Seeds that run at a time. Default: one per core.", &threads);
  const absl::Status parsed = flags.Parse(std::vector<std::string>(argv + 1, argv + argc));
  if (!parsed.ok() || flags.help_requested()) {
    const std::string text = parsed.ok() ? flags.Help(96) : parsed.ToString() + "\n";
    std::fputs(text.c_str(), parsed.ok() ? stdout : stderr);
    return parsed.ok() ? 0 : 2;
  }
  sluice::SetMinimumLogLevel(sluice::LogLevel::kError);
  return options.seed != 0 ? Replay(options) : RunSeeds(options, first_seed, seeds, threads);
}
