#include "kernels/cuda/cuda_memory_sharing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "tests/gpu/host/host_gpu.h"

namespace sluice::cuda {
namespace {

// As ThisProcess() of another would be.
ProcessIdentity AnotherProcess() {
  ProcessIdentity other = ThisProcess();
  ++other.pid;
  return other;
}

// Memory that a Gpu of one process shares, and another Gpu: of the same process, or of another's.
class CudaMemorySharingTest : public ::testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Gpu> gpu_ = MakeHostGpu(), other_gpu_ = MakeHostGpu();
  CudaMemorySharing owner_{*gpu_, GetParam() ? ThisProcess() : AnotherProcess()};
  CudaMemorySharing reader_{*other_gpu_};

  static absl::Status Finish(Gpu& gpu) {
    const std::unique_ptr<GpuEvent> event = gpu.NewEvent();
    gpu.Record(*event);
    return gpu.Wait(*event, Deadline::After(absl::Minutes(1)));
  }
};

INSTANTIATE_TEST_SUITE_P(, CudaMemorySharingTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "InOneProcess" : "BetweenProcesses";
});

TEST_P(CudaMemorySharingTest, IsTheSameMemoryForBoth) {
  auto shared = owner_.AllocateShared(4096);
  ASSERT_TRUE(shared.ok()) << shared.status();
  auto opened = reader_.OpenShared(shared->handle);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->size_bytes(), 4096u);
  int sent = 7, received = 0;
  owner_.CopyShared(&sent, shared->memory->data(), sizeof(sent));
  ASSERT_TRUE(Finish(*gpu_).ok());
  reader_.CopyShared((*opened)->data(), &received, sizeof(received));
  EXPECT_EQ(received, 0) << "not before it is waited for";
  ASSERT_TRUE(Finish(*other_gpu_).ok());
  EXPECT_EQ(received, 7);
}

TEST_P(CudaMemorySharingTest, IsNotFoundOnceItsOwnerHasLetGo) {
  std::string handle;
  {
    auto shared = owner_.AllocateShared(4096);
    ASSERT_TRUE(shared.ok());
    handle = shared->handle;
    ASSERT_TRUE(Finish(*gpu_).ok());
  }
  EXPECT_EQ(reader_.OpenShared(handle).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(CudaMemorySharingTest, RefusesWhatIsNoHandle) {
  auto shared = owner_.AllocateShared(4096);
  ASSERT_TRUE(shared.ok());
  ASSERT_TRUE(Finish(*gpu_).ok());
  const std::string& handle = shared->handle;
  for (const std::string& bytes : {std::string(), handle + "x", handle.substr(1)}) {
    EXPECT_EQ(reader_.OpenShared(bytes).status().code(), absl::StatusCode::kInvalidArgument);
  }
  std::string other_kind = handle, other_host = handle;
  other_kind[0] ^= 1;
  other_host[16] ^= 1;
  for (const std::string& bytes : {other_kind, other_host}) {
    EXPECT_EQ(reader_.OpenShared(bytes).status().code(), absl::StatusCode::kNotFound);
  }
}

// The driver may know another process's memory and not its size.
TEST(CudaMemorySharing, IsAsLargeAsItsOwnerSaysWhereTheDriverDoesNot) {
  const std::unique_ptr<Gpu> gpu = MakeHostGpu(), other = MakeHostGpu({.tells_sizes = false});
  CudaMemorySharing owner(*gpu, AnotherProcess()), reader(*other);
  auto shared = owner.AllocateShared(4096);
  ASSERT_TRUE(shared.ok()) << shared.status();
  auto opened = reader.OpenShared(shared->handle);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->size_bytes(), 4096u);
  const std::unique_ptr<GpuEvent> event = gpu->NewEvent();
  ASSERT_TRUE(gpu->Wait(*event, Deadline::After(absl::Minutes(1))).ok());
}

// What is in use stays, whoever lets go of it.
TEST(CudaMemorySharing, InOneProcessOutlivesItsOwner) {
  const std::unique_ptr<Gpu> gpu = MakeHostGpu();
  CudaMemorySharing reader(*gpu);
  std::unique_ptr<Buffer> opened;
  {
    const std::unique_ptr<Gpu> other = MakeHostGpu();
    CudaMemorySharing owner(*other);
    auto shared = owner.AllocateShared(64);
    ASSERT_TRUE(shared.ok());
    opened = *reader.OpenShared(shared->handle);
    const std::unique_ptr<GpuEvent> event = other->NewEvent();
    ASSERT_TRUE(other->Wait(*event, Deadline::Never()).ok());
  }
  std::memset(opened->data(), 1, opened->size_bytes());
}

}  // namespace
}  // namespace sluice::cuda
