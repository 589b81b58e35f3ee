// Runs the ranks of a stage as threads of the test.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/communicator.h"
#include "kernels/communicator/shm_communicator.h"

namespace sluice::testing {

// Calls function(rank) on a thread for each rank; the first failure, in order of rank.
template <typename Function>
absl::Status OnEveryRank(int num_ranks, const Function& function) {
  std::vector<absl::Status> statuses(num_ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] { statuses[rank] = function(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// A name for JoinShm that nobody else uses.
inline std::string UniqueGroupName() {
  static std::atomic<int> counter{0};
  return absl::StrCat("sluice-test-", getpid(), "-", counter.fetch_add(1));
}

// Returns when all ranks of the group have come.
inline absl::StatusOr<std::unique_ptr<Communicator>> Join(const std::string& group, int rank,
                                                          int num_ranks) {
  return JoinShm({.name = group, .rank = rank, .size = num_ranks},
                 Deadline::After(absl::Seconds(60)));
}

}  // namespace sluice::testing
