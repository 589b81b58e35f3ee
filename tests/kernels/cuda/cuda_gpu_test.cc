// The backend on a GPU of this machine; skipped, visibly, where there is none. What it computes is
// the contract's tests' to say, which run on the same kernels on the host everywhere.
#include "kernels/cuda/runtime/cuda_gpu.h"

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/self_check.h"

namespace sluice::cuda {
namespace {

class CudaGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto gpu = OpenCudaGpu(0);
    if (!gpu.ok()) GTEST_SKIP() << "no GPU to test on: " << gpu.status();
    auto backend = CudaBackend::Create(*std::move(gpu));
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }

  std::unique_ptr<CudaBackend> backend_;
};

TEST_F(CudaGpuTest, PassesItsSelfCheck) {
  const absl::Status status = SelfCheck(*backend_);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(CudaGpuTest, MoreMemoryThanThereIsIsResourceExhausted) {
  const auto buffer = backend_->Allocate(size_t{1} << 50);
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted) << buffer.status();
  EXPECT_TRUE(backend_->Allocate(1 << 20).ok());
}

TEST(OpenCudaGpu, OneThatIsNotThereIsAnErrorWithItsReason) {
  const auto gpu = OpenCudaGpu(1000);
  ASSERT_FALSE(gpu.ok());
  EXPECT_EQ(gpu.status().code(), absl::StatusCode::kFailedPrecondition) << gpu.status();
  EXPECT_FALSE(gpu.status().message().empty());
}

}  // namespace
}  // namespace sluice::cuda
