// What NCCL wants of ranks that record steps: all record the same one at the same time, whatever their
// processes have computed before.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "tests/gpu/host/host_gpu.h"
#include "tests/kernels/testing/paged_sequence.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

constexpr int64_t kMostRows = 64, kPositions = 1024;
constexpr int kHeadDim = 16, kBlock = 16;

// One rank's process.
class Rank {
 public:
  Rank() : backend_(*cuda::CudaBackend::Create(cuda::MakeHostGpu({.num_multiprocessors = 1}))) {
    pool_ = NewKvPool(*backend_, {.num_layers = 1,
                                  .num_blocks = static_cast<int>(table_.size()),
                                  .block_size = kBlock,
                                  .num_kv_heads = 1,
                                  .head_dim = kHeadDim});
    rows_ = *backend_->Allocate(kMostRows * kHeadDim * sizeof(float));
  }

  cuda::CudaBackend& backend() { return *backend_; }

  // The step's rows at the end of a sequence of `context`; whether it was enqueued as it is called or
  // recorded, rather than as a recording.
  bool IsCalled(int64_t rows, int64_t context) {
    const AttentionSegment segment{.num_rows = rows,
                                   .first_position = context - rows,
                                   .block_table = table_.first(context / kBlock)};
    backend_->BeginStep({&segment, 1}, rows);
    const MatrixView x{rows_->data(), DType::kF32, rows, kHeadDim, kHeadDim};
    bool is_called = false;
    EXPECT_TRUE(backend_
                    ->RunStep({.rows = rows, .memory = x.data},
                              [&] {
                                is_called = true;
                                backend_->PagedAttention(x, *pool_, 0, {.scale = 0.3f}, x);
                                return absl::OkStatus();
                              })
                    .ok());
    EXPECT_TRUE(backend_->Synchronize().ok());
    return is_called;
  }

 private:
  const std::vector<int32_t> blocks_ = BlocksInOrder(kPositions, kBlock);
  const absl::Span<const int32_t> table_ = blocks_;
  std::unique_ptr<cuda::CudaBackend> backend_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<Buffer> rows_;
};

struct Step {
  int64_t rows, context;
};
// Memory grows in the fourth, for rows, and in the ninth, for blocks and merges.
const std::vector<Step> kSteps = {{1, 16}, {1, 16}, {1, 16},   {16, 16},  {1, 16},   {1, 16},
                                  {1, 16}, {8, 64}, {1, 1024}, {1, 1024}, {1, 1024}, {1, 16},
                                  {1, 16}, {1, 16}, {8, 64},   {8, 64},   {1, 1024}, {8, 64}};

std::vector<bool> Called(Rank& rank) {
  std::vector<bool> called;
  called.reserve(kSteps.size());
  for (const Step& step : kSteps) called.push_back(rank.IsCalled(step.rows, step.context));
  return called;
}

TEST(EpochTest, RanksThatRecordAlikeDoSoWhateverTheyHaveComputedBefore) {
  Rank survivor, newcomer;
  Called(survivor);
  for (Rank* const rank : {&survivor, &newcomer}) {
    rank->backend().BeginEpoch(cuda::RecordSteps::kLikeOtherRanks);
  }
  const std::vector<bool> expected = Called(newcomer);
  EXPECT_EQ(Called(survivor), expected);
  EXPECT_NE(expected, std::vector<bool>(expected.size(), true));
}

// The test before would pass if memory did not matter.
TEST(EpochTest, OthersRecordSoonerWhereMemoryNeedNotGrow) {
  Rank survivor, newcomer;
  Called(survivor);
  for (Rank* const rank : {&survivor, &newcomer}) {
    rank->backend().BeginEpoch(cuda::RecordSteps::kWhereItCan);
  }
  EXPECT_NE(Called(survivor), Called(newcomer));
}

TEST(EpochTest, WhatIsSentToTheDeviceBetweenStepsLeavesRecordings) {
  Rank rank;
  for (int i = 0; i < 4; ++i) rank.IsCalled(1, 16);
  ASSERT_FALSE(rank.IsCalled(1, 16));
  const MatrixView table{nullptr, DType::kF32, 1, kHeadDim, kHeadDim};
  const std::vector<int32_t> indices(4096, 0);
  const auto source = *rank.backend().Allocate(kHeadDim * sizeof(float));
  const auto out = *rank.backend().Allocate(indices.size() * kHeadDim * sizeof(float));
  MatrixView from = table, to = table;
  from.data = source->data();
  to.data = out->data();
  to.rows = static_cast<int64_t>(indices.size());
  rank.backend().GatherRows(from, indices, to);
  ASSERT_TRUE(rank.backend().Synchronize().ok());
  EXPECT_FALSE(rank.IsCalled(1, 16));
}

}  // namespace
}  // namespace sluice::testing
