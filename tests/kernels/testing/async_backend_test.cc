#include "tests/kernels/testing/async_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/synchronization/notification.h"
#include "kernels/communicator.h"
#include "kernels/communicator/wiring_identity.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/testing/emulator.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

// Every exchange waits for `go`, then returns `result`.
class StubCommunicator final : public Communicator {
 public:
  explicit StubCommunicator(absl::Status result) : result_(std::move(result)) {}

  int rank() const override { return 0; }
  int size() const override { return 2; }
  const WiringIdentity& wiring() const override { return wiring_; }
  absl::Status Broadcast(absl::Span<std::byte>, int, Deadline) override { return Exchange(); }
  absl::Status AllGather(absl::Span<const std::byte>, absl::Span<std::byte>, Deadline) override {
    return Exchange();
  }
  absl::Status AllToAll(absl::Span<const std::byte>, absl::Span<std::byte>, Deadline) override {
    return Exchange();
  }
  absl::Status Check() override { return absl::OkStatus(); }
  void Abort(absl::Status) override {}

  absl::Notification go;

 private:
  absl::Status Exchange() {
    go.WaitForNotification();
    return result_;
  }

  const WiringIdentity wiring_;
  const absl::Status result_;
};

class AsyncBackendTest : public ::testing::Test {
 protected:
  AsyncBackendTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void SetUp() override {
    if (IsEmulated()) GTEST_SKIP() << "an emulated program can't start itself again";
  }

  std::unique_ptr<RankGroup> Group() {
    return backend_->NewRankGroup({.num_ranks = 2, .max_rows = 1, .width = 2}).value();
  }

  std::unique_ptr<Backend> backend_ = MakeAsyncBackend(MakeReferenceBackend());
};

TEST_F(AsyncBackendTest, WorkIsDoneByTheTimeOfAWait) {
  DeviceMatrix x(*backend_, HostMatrix(1, 2, {1, 2}));
  backend_->Scale(3, x.view());
  EXPECT_TRUE(SameBits(x.Read(), HostMatrix(1, 2, {3, 6})));
}

TEST_F(AsyncBackendTest, AHostThatFollowsADevicePointerEnds) {
  const DeviceMatrix x(*backend_, HostMatrix(1, 2, {1, 2}));
  EXPECT_DEATH({ *x.data() = 1; }, "");
  ASSERT_TRUE(backend_->Synchronize().ok());
  EXPECT_DEATH(
      {
        volatile float read = *x.data();
        (void)read;
      },
      "");
}

TEST_F(AsyncBackendTest, WorkOnMemoryThatIsGoneEnds) {
  EXPECT_DEATH(
      {
        const DeviceMatrix kept(*backend_, HostMatrix(1, 2, {1, 2}));
        {
          const DeviceMatrix gone(*backend_, HostMatrix(1, 2, {1, 2}));
          backend_->AddResidual(kept.view(), gone.view());
        }
        backend_->Synchronize().IgnoreError();
      },
      "");
}

TEST_F(AsyncBackendTest, WhatACallReadsIsFreeWhenItReturns) {
  DeviceMatrix x(*backend_, HostMatrix(1, 2, {0, 0}));
  std::vector<float> host = {4, 5};
  backend_->CopyIn({reinterpret_cast<const std::byte*>(host.data()), 8}, x.data());
  std::fill(host.begin(), host.end(), -1.0f);
  std::vector<MatrixView> terms(2, x.view());
  DeviceMatrix sum(*backend_, 1, 2);
  backend_->TreeAdd(terms, sum.view());
  terms.clear();
  EXPECT_TRUE(SameBits(sum.Read(), HostMatrix(1, 2, {8, 10})));
}

TEST_F(AsyncBackendTest, StepsOfOneKeyAreRunAgainAsTheyWereRecorded) {
  DeviceMatrix x(*backend_, HostMatrix(1, 1, {1}));
  const StepKey key{.rows = 1, .memory = x.data()};
  int enqueued = 0;
  const auto step = [&] {
    ++enqueued;
    backend_->Scale(2, x.view());
    return absl::OkStatus();
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(backend_->RunStep(key, step).ok());
  EXPECT_TRUE(SameBits(x.Read(), HostMatrix(1, 1, {8})));
  EXPECT_EQ(enqueued, 1);
  ASSERT_TRUE(backend_->RunStep({.rows = 1, .memory = x.data(), .variant = 1}, step).ok());
  EXPECT_EQ(enqueued, 2);
}

TEST_F(AsyncBackendTest, StepsHaveAPowerOfTwoOfRows) {
  EXPECT_EQ(backend_->BucketRows(1), 1);
  EXPECT_EQ(backend_->BucketRows(5), 8);
  EXPECT_EQ(backend_->BucketRows(512), 512);
}

TEST_F(AsyncBackendTest, AFailureComesWithTheNextWaitAndDropsWhatIsBehindIt) {
  DeviceMatrix x(*backend_, HostMatrix(1, 2, {1, 2}));
  ASSERT_TRUE(backend_->Synchronize().ok());
  StubCommunicator broken(absl::UnavailableError("rank 1 has left"));
  broken.go.Notify();
  const auto group = Group();
  ASSERT_TRUE(group->Join(&broken, Deadline::Never()).ok());
  group->BeginStep(Deadline::Never());
  DeviceMatrix residual(*backend_, HostMatrix(1, 2, {3, 4}));
  EXPECT_TRUE(group->SumToResidual(x.view(), {.residual = residual.view()}).ok());
  backend_->Scale(100, x.view());
  EXPECT_EQ(backend_->Synchronize(), absl::UnavailableError("rank 1 has left"));
  EXPECT_TRUE(backend_->Synchronize().ok());
  EXPECT_TRUE(SameBits(x.Read(), HostMatrix(1, 2, {1, 2})));
  EXPECT_TRUE(SameBits(residual.Read(), HostMatrix(1, 2, {3, 4})));
}

TEST_F(AsyncBackendTest, WorkThatHangsIsWaitedForNoLongerThanAsked) {
  // These are in use until the backend is gone.
  StubCommunicator silent{absl::OkStatus()};
  std::unique_ptr<RankGroup> group;
  std::unique_ptr<Buffer> memory;
  const auto backend = MakeAsyncBackend(MakeReferenceBackend());
  group = backend->NewRankGroup({.num_ranks = 2, .max_rows = 1, .width = 2}).value();
  memory = backend->Allocate(16).value();
  ASSERT_TRUE(group->Join(&silent, Deadline::Never()).ok());
  group->BeginStep(Deadline::Never());
  const MatrixView partial{memory->data(), DType::kF32, 1, 2, 2};
  EXPECT_TRUE(group->SumToResidual(partial, {.residual = partial}).ok());
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = backend->Synchronize(Deadline::After(absl::Milliseconds(10)));
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  }
  silent.go.Notify();
}

TEST_F(AsyncBackendTest, MemoryHasAnEnd) {
  EXPECT_EQ(backend_->Allocate(size_t{1} << 60).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(backend_->Allocate(size_t{1} << 20).ok());
}

}  // namespace
}  // namespace sluice::testing
