// A tile that takes several splits one after another and leaves a partial sum for each: what rows
// see has the bits of splits that were computed apart.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "tests/gpu/host/host_gpu.h"
#include "tests/kernels/testing/paged_sequence.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

constexpr int kHeadDim = 16, kGroup = 2, kBlock = 16;
constexpr int64_t kPositions = 21 * cuda::kGpuAttentionSplit - 3;
// What a host's GPU of one multiprocessor has at a time, with heads this small.
constexpr int64_t kBlocksAtATime = 5;

class AttentionPiecesTest : public ::testing::Test {
 protected:
  AttentionPiecesTest() {
    auto backend = cuda::CudaBackend::Create(cuda::MakeHostGpu({.num_multiprocessors = 1}));
    backend_ = *std::move(backend);
    pool_ = NewKvPool(*backend_, {.num_layers = 1,
                                  .num_blocks = static_cast<int>(table_.size()),
                                  .block_size = kBlock,
                                  .num_kv_heads = 1,
                                  .head_dim = kHeadDim,
                                  .dtype = DType::kBF16});
    Random random(1);
    const DeviceMatrix keys(*backend_, RandomMatrix(random, kPositions, kHeadDim));
    const DeviceMatrix values(*backend_, RandomMatrix(random, kPositions, kHeadDim));
    const AttentionSegment all{.num_rows = kPositions, .block_table = table_};
    backend_->BeginStep({&all, 1}, kPositions);
    StoreKv(*backend_, keys.view(), values.view(), 0, *pool_);
    EXPECT_TRUE(backend_->Synchronize().ok());
  }

  // As many sequences as there are queries decode their newest position; all read the same blocks.
  std::vector<AttentionSegment> Segments(int64_t count) const {
    std::vector<AttentionSegment> segments;
    for (int64_t row = 0; row < count; ++row) {
      segments.push_back({.first_row = row,
                          .num_rows = 1,
                          .first_position = kPositions - 1,
                          .block_table = table_});
    }
    return segments;
  }

  HostMatrix Attend(const HostMatrix& queries) {
    const DeviceMatrix q(*backend_, queries), out(*backend_, queries.rows, queries.cols);
    backend_->BeginStep(Segments(queries.rows), queries.rows);
    backend_->PagedAttention(q.view(), *pool_, 0, {.scale = 0.3f}, out.view());
    return out.Read();
  }

  const std::vector<int32_t> table_ = BlocksInOrder(kPositions, kBlock);
  std::unique_ptr<cuda::CudaBackend> backend_;
  std::unique_ptr<KvPool> pool_;
};

TEST_F(AttentionPiecesTest, HaveTheBitsOfSplitsComputedApart) {
  constexpr int64_t kSequences = kBlocksAtATime - 1;
  cuda::AttentionPlan apart, together;
  const cuda::AttentionShape shape{.group = kGroup};
  cuda::PlanAttention(Segments(1), shape, {.decode_blocks = kBlocksAtATime}, apart);
  cuda::PlanAttention(Segments(kSequences), shape, {.decode_blocks = kBlocksAtATime}, together);
  ASSERT_EQ(apart.decode[0].split_end, apart.decode[0].split_begin + 1);
  ASSERT_EQ(together.decode[0].split_end, together.decode[0].split_begin + 2);
  Random random(2);
  const HostMatrix queries = RandomMatrix(random, kSequences, kGroup * kHeadDim, 2);
  const HostMatrix all = Attend(queries);
  for (int64_t row = 0; row < kSequences; ++row) {
    EXPECT_TRUE(SameBits(all.Rows(row, 1), Attend(queries.Rows(row, 1)))) << row;
  }
}

}  // namespace
}  // namespace sluice::testing
