#include "kernels/cuda/staging_ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/cuda/device_memory.h"
#include "tests/gpu/host/host_gpu.h"

namespace sluice::cuda {
namespace {

// Of a stream that a peer holds up, as soon as the test says so.
class StubWatch final : public StreamWatch {
 public:
  absl::Status Look() override { return health; }
  absl::Status health;
};

class StagingRingTest : public ::testing::Test {
 protected:
  StagingRingTest() { gpu_->SetWatch(&watch_); }

  absl::Status Finish() {
    const std::unique_ptr<GpuEvent> event = gpu_->NewEvent();
    gpu_->Record(*event);
    return gpu_->Wait(*event, Deadline::Never());
  }

  const std::unique_ptr<Gpu> gpu_ = MakeHostGpu();
  StubWatch watch_;
  const std::unique_ptr<StagingRing> ring_ = *StagingRing::Create(*gpu_);
};

TEST_F(StagingRingTest, UsesAPartAgainOnceItsCopiesAreDone) {
  std::vector<std::byte> sent(StagingRing::kPartBytes * (2 * StagingRing::kParts + 1) + 7);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * i / 3);
  const auto memory = *DeviceMemory::Allocate(sent.size(), *gpu_);
  ASSERT_TRUE(ring_->CopyIn(sent, memory->data()).ok());
  ASSERT_TRUE(Finish().ok());
  const auto* const bytes = memory->as<std::byte>();
  EXPECT_TRUE(std::vector<std::byte>(bytes, bytes + sent.size()) == sent);
}

// Copies are behind an exchange in the stream: whatever releases it must be looked at here as well.
TEST_F(StagingRingTest, AWaitForAPartLooksAtTheWatch) {
  watch_.health = absl::UnavailableError("rank 1 has died");
  for (int part = 0; part < StagingRing::kParts; ++part) {
    ASSERT_TRUE(ring_->Take(StagingRing::kPartBytes).ok()) << part;
  }
  EXPECT_EQ(ring_->Take(1).status(), watch_.health);
  EXPECT_EQ(ring_->Take(1).status(), watch_.health) << "the part is not to be had yet";
  watch_.health = absl::OkStatus();
  EXPECT_TRUE(ring_->Take(1).ok());
}

// To free memory waits for work that may use it, and that for a peer.
TEST_F(StagingRingTest, MemoryThatIsFreedLooksAtTheWatchAndTheNextWaitTells) {
  auto memory = *DeviceMemory::AllocateZeroed(64, *gpu_);
  watch_.health = absl::UnavailableError("rank 1 has died");
  memory.reset();
  watch_.health = absl::OkStatus();
  EXPECT_EQ(Finish(), absl::UnavailableError("rank 1 has died"));
  EXPECT_TRUE(Finish().ok());
}

}  // namespace
}  // namespace sluice::cuda
