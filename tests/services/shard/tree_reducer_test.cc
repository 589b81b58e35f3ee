#include "services/shard/tree_reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/services/shard/rank_threads.h"

namespace sluice::testing {
namespace {

using Matrix = std::vector<float>;

constexpr int kWidth = 24;

// Numbers of very different size, so that the order of additions shows in the sum.
std::vector<Matrix> RandomPartials(int num_ranks, int rows, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Matrix> partials(num_ranks, Matrix(rows * kWidth));
  for (Matrix& partial : partials) {
    for (float& value : partial) {
      value = std::ldexp(std::normal_distribution<float>()(random),
                         std::uniform_int_distribution<int>(-12, 12)(random));
    }
  }
  return partials;
}

float TreeSum(const std::vector<Matrix>& partials, size_t begin, size_t end, size_t index) {
  if (end - begin == 1) return partials[begin][index];
  const size_t middle = (begin + end) / 2;
  return TreeSum(partials, begin, middle, index) + TreeSum(partials, middle, end, index);
}

// One reducer per rank sums the partials of several steps; each rank's result after each step.
struct Group {
  int num_ranks;
  int max_rows;
  size_t gather_bytes;

  // results[rank][step]
  absl::StatusOr<std::vector<std::vector<Matrix>>> Sum(
      const std::vector<std::vector<Matrix>>& steps) const {
    const std::string name = UniqueGroupName();
    std::vector<std::vector<Matrix>> results(num_ranks);
    absl::Status status = OnEveryRank(num_ranks, [&](int rank) -> absl::Status {
      const auto backend = MakeCpuBackend({.num_threads = 1});
      const auto communicator = Join(name, rank, num_ranks);
      if (!communicator.ok()) return communicator.status();
      auto reducer = TreeReducer::Create({.num_ranks = num_ranks,
                                          .max_rows = max_rows,
                                          .width = kWidth,
                                          .gather_bytes = gather_bytes},
                                         *backend);
      if (!reducer.ok()) return reducer.status();
      for (const std::vector<Matrix>& partials : steps) {
        const auto rows = static_cast<int64_t>(partials[rank].size() / kWidth);
        Matrix memory = partials[rank];
        memory.resize(TreeReducer::PaddedRows(rows, num_ranks) * kWidth);
        absl::Status summed =
            reducer->Sum(communicator->get(), {memory.data(), DType::kF32, rows, kWidth, kWidth},
                         Deadline::After(absl::Seconds(60)));
        if (!summed.ok()) return summed;
        memory.resize(rows * kWidth);
        results[rank].push_back(memory);
      }
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return results;
  }
};

void ExpectSumsOfTree(const Group& group) {
  std::vector<std::vector<Matrix>> steps;
  for (const int rows : {group.max_rows, 1, 2, 3, 7, 8, 9, 31}) {
    steps.push_back(RandomPartials(group.num_ranks, std::min(rows, group.max_rows), 100 + rows));
  }
  const auto results = group.Sum(steps);
  ASSERT_TRUE(results.ok()) << results.status();
  for (int rank = 0; rank < group.num_ranks; ++rank) {
    for (size_t step = 0; step < steps.size(); ++step) {
      Matrix expected(steps[step][0].size());
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] = TreeSum(steps[step], 0, group.num_ranks, i);
      }
      EXPECT_EQ((*results)[rank][step], expected)
          << group.num_ranks << " ranks, rank " << rank << ", step " << step;
    }
  }
}

TEST(TreeReducerTest, GatheringGivesTheSumOfTheTree) {
  for (const int ranks : {1, 2, 4, 8}) ExpectSumsOfTree({ranks, 32, 1 << 20});
}

TEST(TreeReducerTest, ExchangingPartsGivesTheSameBits) {
  for (const int ranks : {1, 2, 4, 8}) ExpectSumsOfTree({ranks, 32, 0});
}

TEST(TreeReducerTest, BothWaysTakeTurnsAtTheLimit) {
  ExpectSumsOfTree({4, 37, 8 * kWidth * sizeof(float)});
}

TEST(TreeReducerTest, OneRankNeedsNoCommunicator) {
  const auto backend = MakeCpuBackend({.num_threads = 1});
  auto reducer = TreeReducer::Create({.num_ranks = 1, .max_rows = 2, .width = kWidth}, *backend);
  ASSERT_TRUE(reducer.ok());
  Matrix partial = RandomPartials(1, 2, 1)[0];
  const Matrix before = partial;
  EXPECT_TRUE(
      reducer->Sum(nullptr, {partial.data(), DType::kF32, 2, kWidth, kWidth}, Deadline::Never())
          .ok());
  EXPECT_EQ(partial, before);
}

TEST(TreeReducerTest, FailuresOfTheCommunicatorComeBack) {
  const std::string name = UniqueGroupName();
  const absl::Status status = OnEveryRank(2, [&](int rank) -> absl::Status {
    const auto communicator = Join(name, rank, 2);
    if (!communicator.ok()) return communicator.status();
    if (rank == 1) (*communicator)->Abort(absl::AbortedError("epoch 8"));
    const auto backend = MakeCpuBackend({.num_threads = 1});
    auto reducer = TreeReducer::Create({.num_ranks = 2, .max_rows = 2, .width = kWidth}, *backend);
    Matrix memory(2 * kWidth);
    absl::Status summed =
        reducer->Sum(communicator->get(), {memory.data(), DType::kF32, 2, kWidth, kWidth},
                     Deadline::After(absl::Seconds(60)));
    return summed.ok() ? absl::InternalError("rank did not fail") : absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace sluice::testing
