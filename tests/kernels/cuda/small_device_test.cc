// What a step does on a GPU that has little: of memory, and of memory that a block's threads share.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "tests/gpu/host/host_gpu.h"
#include "tests/kernels/testing/paged_sequence.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

constexpr int64_t kPositions = 5 * cuda::kGpuAttentionSplit;
constexpr int kBlock = 16;

// Sequences that all read the same keys and values.
class Sequences {
 public:
  Sequences(int head_dim, DType dtype, const cuda::HostGpuOptions& options) : head_dim_(head_dim) {
    backend_ = *cuda::CudaBackend::Create(cuda::MakeHostGpu(options));
    pool_ = NewKvPool(*backend_, {.num_layers = 1,
                                  .num_blocks = static_cast<int>(table_.size()),
                                  .block_size = kBlock,
                                  .num_kv_heads = 1,
                                  .head_dim = head_dim,
                                  .dtype = dtype});
    Random random(1);
    const DeviceMatrix keys(*backend_, RandomMatrix(random, kPositions, head_dim));
    const DeviceMatrix values(*backend_, RandomMatrix(random, kPositions, head_dim));
    const AttentionSegment all{.num_rows = kPositions, .block_table = table_};
    backend_->BeginStep({&all, 1}, kPositions);
    StoreKv(*backend_, keys.view(), values.view(), 0, *pool_);
    EXPECT_TRUE(backend_->Synchronize().ok());
  }

  cuda::CudaBackend& backend() { return *backend_; }

  // The newest rows of `count` sequences, `rows` of each.
  std::vector<AttentionSegment> Newest(int64_t count, int64_t rows) const {
    std::vector<AttentionSegment> segments;
    for (int64_t i = 0; i < count; ++i) {
      segments.push_back({.first_row = i * rows,
                          .num_rows = rows,
                          .first_position = kPositions - rows,
                          .block_table = table_});
    }
    return segments;
  }
  // A step that may be recorded.
  absl::Status Attend(const std::vector<AttentionSegment>& segments, const DeviceMatrix& queries,
                      const DeviceMatrix& out) {
    backend_->BeginStep(segments, queries.view().rows);
    absl::Status status =
        backend_->RunStep({.rows = queries.view().rows, .memory = out.data()}, [&] {
          backend_->PagedAttention(queries.view(), *pool_, 0, {.scale = 0.3f}, out.view());
          return absl::OkStatus();
        });
    status.Update(backend_->Synchronize());
    return status;
  }

 private:
  const int head_dim_;
  const std::vector<int32_t> table_ = BlocksInOrder(kPositions, kBlock);
  std::unique_ptr<cuda::CudaBackend> backend_;
  std::unique_ptr<KvPool> pool_;
};

TEST(SmallDeviceTest, StepThatFindsNoRoomFailsAloneAndTouchesNothing) {
  constexpr int kHeadDim = 64;
  constexpr int64_t kRows = 16;
  Sequences sequences(kHeadDim, DType::kBF16, {.memory_bytes = size_t{1} << 30});
  Backend& backend = sequences.backend();
  Random random(2);
  const DeviceMatrix queries(backend, RandomMatrix(random, kRows, kHeadDim, 2));
  const DeviceMatrix out(backend, kRows, kHeadDim);
  // As it is called, recorded, and as it was recorded.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(sequences.Attend(sequences.Newest(1, 1), queries, out).ok());
  }
  const HostMatrix before = out.Read();
  ASSERT_FALSE(std::isnan(before.values[0]));
  const DeviceMatrix fresh(backend, kRows, kHeadDim);
  auto ballast = backend.Allocate(backend.memory()->free_bytes);
  ASSERT_TRUE(ballast.ok()) << ballast.status();
  // More of everything, under the key of what was recorded.
  const absl::Status full = sequences.Attend(sequences.Newest(kRows, 1), queries, out);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_TRUE(SameBits(out.Read(), before));
  ballast->reset();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(sequences.Attend(sequences.Newest(1, 1), queries, out).ok());
    EXPECT_TRUE(SameBits(out.Read().Rows(0, 1), before.Rows(0, 1)));
  }
  ASSERT_TRUE(sequences.Attend(sequences.Newest(kRows, 1), queries, out).ok());
  EXPECT_TRUE(SameBits(out.Read().Rows(0, 1), before.Rows(0, 1)));
}

// As compute capability 8.6 has it: tiles of 64 rows of F32 keys and values have no room.
TEST(SmallDeviceTest, PrefillTakesSmallTilesWhereLargeOnesHaveNoRoom) {
  constexpr int kHeadDim = 128;
  constexpr int64_t kRows = 40;
  Random random(3);
  const HostMatrix rows = RandomMatrix(random, kRows, kHeadDim, 2);
  std::vector<HostMatrix> results;
  for (const size_t shared_bytes : {size_t{99} << 10, size_t{227} << 10}) {
    Sequences sequences(kHeadDim, DType::kF32, {.shared_bytes = shared_bytes});
    const DeviceMatrix queries(sequences.backend(), rows);
    const DeviceMatrix out(sequences.backend(), kRows, kHeadDim);
    ASSERT_TRUE(sequences.Attend(sequences.Newest(1, kRows), queries, out).ok());
    results.push_back(out.Read());
  }
  EXPECT_TRUE(SameBits(results[0], results[1]));
}

}  // namespace
}  // namespace sluice::testing
