// The backend on a GPU of this machine; skipped, visibly, where there is none. What it computes is
// the contract's tests' to say, which run on the same kernels on the host everywhere.
#include "kernels/cuda/runtime/cuda_gpu.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/ranks/flag_stream.h"
#include "kernels/device/self_check.h"
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

// Of a stream that waits for a peer: lets it go on, and says once that the peer has died.
class ReleasingWatch final : public StreamWatch {
 public:
  explicit ReleasingWatch(std::atomic<uint32_t>& flag) : flag_(flag) {}
  absl::Status Look() override {
    flag_ = 1;
    return std::exchange(failure_, absl::OkStatus());
  }

 private:
  std::atomic<uint32_t>& flag_;
  absl::Status failure_ = absl::UnavailableError("rank 1 has died");
};

TEST(CudaGpuWatchTest, MemoryIsFreedThoughAPeerHasDiedThatTheStreamWaitsFor) {
  auto opened = OpenCudaGpu(0, GpuProducts::kPortable);
  if (!opened.ok()) GTEST_SKIP() << "no GPU to test on: " << opened.status();
  Gpu& gpu = **opened;
  const absl::StatusOr<FlagCalls>& calls = FlagCalls::Get();
  ASSERT_TRUE(calls.ok()) << calls.status();
  const absl::StatusOr<void*> pinned = gpu.AllocatePinned(sizeof(std::atomic<uint32_t>));
  const absl::StatusOr<void*> freed = gpu.Allocate(1 << 10);
  ASSERT_TRUE(pinned.ok() && freed.ok());
  auto& flag = *new (*pinned) std::atomic<uint32_t>(0);
  ReleasingWatch watch(flag);
  gpu.SetWatch(&watch);
  ASSERT_EQ(calls->wait(static_cast<CUstream>(gpu.stream()), reinterpret_cast<CUdeviceptr>(&flag),
                        1, CU_STREAM_WAIT_VALUE_EQ),
            CUDA_SUCCESS);
  gpu.Free(*freed);
  const std::unique_ptr<GpuEvent> end = gpu.NewEvent();
  gpu.Record(*end);
  EXPECT_EQ(gpu.Wait(*end, Deadline::Never()), absl::UnavailableError("rank 1 has died"));
  gpu.Record(*end);
  EXPECT_TRUE(gpu.Wait(*end, Deadline::Never()).ok());
  gpu.FreePinned(*pinned);
  gpu.SetWatch(nullptr);
}

}  // namespace
}  // namespace sluice::cuda
