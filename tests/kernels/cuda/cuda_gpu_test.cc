// The backend on a GPU of this machine; skipped, visibly, where there is none. What it computes is
// the contract's tests' to say, which run on the same kernels on the host everywhere.
#include "kernels/cuda/runtime/cuda_gpu.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/self_check.h"
#include "tests/kernels/testing/test_backend.h"

namespace sluice::cuda {
namespace {

// By the instructions that multiply.
class CudaGpuTest : public ::testing::TestWithParam<GpuProducts> {
 protected:
  void SetUp() override {
    const std::optional<GpuProducts> fastest = testing::TestGpuProducts();
    if (fastest.has_value() && GetParam() > *fastest) {
      GTEST_SKIP() << "SLUICE_TEST_GPU_INSTRUCTIONS leaves it out";
    }
    auto gpu = OpenCudaGpu(0, GetParam());
    if (!gpu.ok()) GTEST_SKIP() << "no GPU to test on: " << gpu.status();
    num_multiprocessors_ = (*gpu)->properties().num_multiprocessors;
    auto backend = CudaBackend::Create(*std::move(gpu));
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }

  int num_multiprocessors_ = 0;
  std::unique_ptr<CudaBackend> backend_;
};

std::string ProductsName(const ::testing::TestParamInfo<GpuProducts>& info) {
  switch (info.param) {
    case GpuProducts::kPortable:
      return "Portable";
    case GpuProducts::kHopper:
      return "Hopper";
    case GpuProducts::kPipelined:
      return "Pipelined";
    case GpuProducts::kFp8:
      return "Fp8";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Paths, CudaGpuTest,
                         ::testing::Values(GpuProducts::kPortable, GpuProducts::kHopper,
                                           GpuProducts::kPipelined, GpuProducts::kFp8),
                         ProductsName);

TEST_P(CudaGpuTest, PassesItsSelfCheck) {
  const absl::Status status = SelfCheck(*backend_);
  EXPECT_TRUE(status.ok()) << status;
}

// An instruction gives a token the same bits however many tokens it multiplies at a time: no
// document says so.
TEST_P(CudaGpuTest, BatchesOfAllSizesHaveTheSameBits) {
  for (const int tiles :
       {num_multiprocessors_ / 8, num_multiprocessors_ / 2, num_multiprocessors_}) {
    const BatchSizes sizes = BatchSizesFor(tiles);
    const absl::Status status = CheckBatchSizes(*backend_, sizes);
    EXPECT_TRUE(status.ok()) << sizes.rows << " rows: " << status;
  }
}

TEST_P(CudaGpuTest, MoreMemoryThanThereIsIsResourceExhausted) {
  const auto buffer = backend_->Allocate(size_t{1} << 50);
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted) << buffer.status();
  EXPECT_TRUE(backend_->Allocate(1 << 20).ok());
}

// Whoever waits next has launched nothing that failed.
TEST_P(CudaGpuTest, AFailureThatWasReturnedIsNotTheNextWaits) {
  const auto pinned = backend_->gpu().AllocatePinned(size_t{1} << 50);
  EXPECT_EQ(pinned.status().code(), absl::StatusCode::kResourceExhausted) << pinned.status();
  const absl::Status waited = backend_->Synchronize();
  EXPECT_TRUE(waited.ok()) << waited;
}

TEST(OpenCudaGpu, OneThatIsNotThereIsAnErrorWithItsReason) {
  const auto gpu = OpenCudaGpu(1000);
  ASSERT_FALSE(gpu.ok());
  EXPECT_EQ(gpu.status().code(), absl::StatusCode::kFailedPrecondition) << gpu.status();
  EXPECT_FALSE(gpu.status().message().empty());
}

}  // namespace
}  // namespace sluice::cuda
