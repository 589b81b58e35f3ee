#include "kernels/rank_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/testing/async_backend.h"
#include "tests/kernels/testing/emulator.h"
#include "tests/kernels/testing/rank_threads.h"

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

std::unique_ptr<Backend> NewBackend(bool is_async) {
  auto backend = MakeCpuBackend({.num_threads = 1});
  return is_async ? MakeAsyncBackend(std::move(backend)) : std::move(backend);
}

absl::Span<std::byte> BytesOf(Matrix& matrix) {
  return {reinterpret_cast<std::byte*>(matrix.data()), matrix.size() * sizeof(float)};
}

// One rank's part of a group.
struct Rank {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<RankGroup> ranks;
  std::unique_ptr<Buffer> memory, residual;

  static absl::StatusOr<Rank> Create(const RankGroupSpec& spec, bool is_async) {
    Rank rank{.backend = NewBackend(is_async)};
    auto ranks = rank.backend->NewRankGroup(spec);
    if (!ranks.ok()) return ranks.status();
    auto memory = rank.backend->Allocate(PaddedRows(spec.max_rows, spec.num_ranks) * spec.width *
                                         sizeof(float));
    if (!memory.ok()) return memory.status();
    rank.ranks = *std::move(ranks);
    auto residual = rank.backend->Allocate(spec.max_rows * spec.width * sizeof(float));
    if (!residual.ok()) return residual.status();
    rank.memory = *std::move(memory);
    rank.residual = *std::move(residual);
    return rank;
  }

  // Sums `partial` in place, onto zeroes.
  absl::Status Sum(Communicator* communicator, Matrix& partial) {
    Matrix zeroes(partial.size());
    backend->CopyIn(BytesOf(partial), memory->data());
    backend->CopyIn(BytesOf(zeroes), residual->data());
    const Deadline deadline = Deadline::After(absl::Seconds(60));
    if (absl::Status met = ranks->Join(communicator, deadline); !met.ok()) return met;
    ranks->BeginStep(deadline);
    const auto rows = static_cast<int64_t>(partial.size() / kWidth);
    const auto view = [&](Buffer& buffer) {
      return MatrixView{buffer.data(), DType::kF32, rows, kWidth, kWidth};
    };
    absl::Status sent = ranks->SumToResidual(view(*memory), {.residual = view(*residual)});
    if (!sent.ok()) return sent;
    if (absl::Status done = backend->Synchronize(); !done.ok()) return done;
    return backend->CopyOut(residual->data(), BytesOf(partial));
  }
};

// The ranks sum the partials of several steps; each rank's result after each step.
struct Group {
  int num_ranks;
  int max_rows;
  size_t gather_bytes;
  bool is_async = false;

  // results[rank][step]
  absl::StatusOr<std::vector<std::vector<Matrix>>> Sum(
      const std::vector<std::vector<Matrix>>& steps) const {
    const std::string name = UniqueGroupName();
    std::vector<std::vector<Matrix>> results(num_ranks);
    absl::Status status = OnEveryRank(num_ranks, [&](int index) -> absl::Status {
      const auto communicator = Join(name, index, num_ranks);
      if (!communicator.ok()) return communicator.status();
      auto rank = Rank::Create({.num_ranks = num_ranks,
                                .max_rows = max_rows,
                                .width = kWidth,
                                .gather_bytes = gather_bytes},
                               is_async);
      if (!rank.ok()) return rank.status();
      for (const std::vector<Matrix>& partials : steps) {
        Matrix sum = partials[index];
        if (absl::Status summed = rank->Sum(communicator->get(), sum); !summed.ok()) return summed;
        results[index].push_back(sum);
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

class RankGroupTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (IsEmulated()) GTEST_SKIP() << "an emulator makes ranks believe that the others are dead";
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, RankGroupTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "cpu_async" : "cpu"; });

TEST_P(RankGroupTest, GatheringGivesTheSumOfTheTree) {
  for (const int ranks : {2, 4, 8}) ExpectSumsOfTree({ranks, 32, 1 << 20, GetParam()});
}

TEST_P(RankGroupTest, ExchangingPartsGivesTheSameBits) {
  for (const int ranks : {2, 4, 8}) ExpectSumsOfTree({ranks, 32, 0, GetParam()});
}

TEST_P(RankGroupTest, BothWaysTakeTurnsAtTheLimit) {
  ExpectSumsOfTree({4, 37, 8 * kWidth * sizeof(float), GetParam()});
}

// At once or at the next wait; and what was enqueued behind it is not done.
TEST_P(RankGroupTest, FailuresOfTheCommunicatorComeBack) {
  const std::string name = UniqueGroupName();
  const absl::Status status = OnEveryRank(2, [&](int index) -> absl::Status {
    const auto communicator = Join(name, index, 2);
    if (!communicator.ok()) return communicator.status();
    if (index == 1) (*communicator)->Abort(absl::AbortedError("epoch 8"));
    auto rank = Rank::Create({.num_ranks = 2, .max_rows = 2, .width = kWidth}, GetParam());
    if (!rank.ok()) return rank.status();
    Matrix memory(2 * kWidth);
    const absl::Status summed = rank->Sum(communicator->get(), memory);
    if (summed.ok()) return absl::InternalError("rank did not fail");
    return rank->backend->Synchronize();  // told once
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace sluice::testing
