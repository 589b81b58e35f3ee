#include "kernels/cuda/step_recorder.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/gpu/host/host_gpu.h"

namespace sluice::cuda {
namespace {

// Counts what is enqueued as it is called, and what the device does.
class StepRecorderTest : public ::testing::Test {
 protected:
  StepRecorderTest() {
    source_ = *gpu_->Allocate(sizeof(int));
    target_ = *gpu_->Allocate(sizeof(int));
    event_ = gpu_->NewEvent();
  }
  ~StepRecorderTest() override {
    gpu_->Free(source_);
    gpu_->Free(target_);
  }

  absl::Status Run(int64_t rows, uint64_t parts = 0) {
    return recorder_.Run({.step = {.rows = rows}, .parts = parts}, [&] {
      ++calls_;
      gpu_->Copy(target_, source_, sizeof(int));
      return result_;
    });
  }
  // What the step copies.
  int Copied(int value) {
    *static_cast<int*>(source_) = value;
    EXPECT_TRUE(gpu_->Wait(*event_, Deadline::Never()).ok());
    return *static_cast<int*>(target_);
  }

  std::unique_ptr<Gpu> gpu_ = MakeHostGpu();
  StepRecorder recorder_{*gpu_};
  std::unique_ptr<GpuEvent> event_;
  void* source_;
  void* target_;
  int calls_ = 0;
  absl::Status result_;
};

TEST_F(StepRecorderTest, RunsRecordsAndThenEnqueuesAgain) {
  for (int i = 1; i <= 5; ++i) {
    ASSERT_TRUE(Run(4).ok());
    EXPECT_EQ(Copied(i), i);
  }
  EXPECT_EQ(calls_, 2);
  ASSERT_TRUE(Run(8).ok());
  EXPECT_EQ(calls_, 3);
}

TEST_F(StepRecorderTest, StepsWithOtherPartsAreOthers) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Run(4, 1).ok());
  EXPECT_EQ(calls_, 2);
  ASSERT_TRUE(Run(4, 3).ok());
  EXPECT_EQ(calls_, 3);
}

TEST_F(StepRecorderTest, ForgottenStepsRunAsTheyAreCalledAgain) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Run(4).ok());
  recorder_.Forget();
  ASSERT_TRUE(Run(4).ok());
  EXPECT_EQ(calls_, 3);
  EXPECT_EQ(Copied(9), 9);
}

TEST_F(StepRecorderTest, StepsThatWaitOnTheHostAreNeverRecorded) {
  for (int i = 1; i <= 4; ++i) {
    ASSERT_TRUE(recorder_
                    .Run({.step = {.rows = 1}},
                         [&] {
                           EXPECT_FALSE(recorder_.is_recording());
                           recorder_.LeaveUnrecorded();
                           ++calls_;
                           return absl::OkStatus();
                         })
                    .ok());
  }
  EXPECT_EQ(calls_, 4);
}

TEST_F(StepRecorderTest, WhatTheDeviceRefusesToRecordRunsAsItIsCalled) {
  const auto gpu = MakeHostGpu({.can_record = false});
  StepRecorder recorder(*gpu);
  int calls = 0, recorded = 0;
  for (int i = 1; i <= 5; ++i) {
    const absl::Status status = recorder.Run({.step = {.rows = 1}}, [&] {
      ++(recorder.is_recording() ? recorded : calls);
      return absl::OkStatus();
    });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(calls, i);
  }
  EXPECT_EQ(recorded, 1);
}

// It may have failed before it had all of its memory.
TEST_F(StepRecorderTest, WhatFailedAtFirstRunsOnceMoreBeforeItIsRecorded) {
  result_ = absl::ResourceExhaustedError("no room");
  EXPECT_EQ(Run(4), result_);
  result_ = absl::OkStatus();
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(Run(4).ok());
    EXPECT_EQ(Copied(i), i);
  }
  EXPECT_EQ(calls_, 3);  // failed, ran, was recorded
}

// As where the driver has no such operation for recordings.
TEST_F(StepRecorderTest, WhatAnOperationRefusesToRecordRunsAsItIsCalled) {
  std::vector<absl::Status> told;
  StepRecorder recorder(*gpu_, [&](absl::Status reason) { told.push_back(std::move(reason)); });
  const absl::Status refusal = absl::InternalError("cuStreamWaitValue32 failed with 900");
  int calls = 0;
  for (int64_t rows : {1, 1, 1, 2, 2, 2}) {
    const absl::Status status = recorder.Run({.step = {.rows = rows}}, [&] {
      calls += recorder.is_recording() ? 0 : 1;
      return recorder.is_recording() ? refusal : absl::OkStatus();
    });
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(told, std::vector{refusal}) << "once";
  EXPECT_TRUE(recorder.has_refused());
}

TEST_F(StepRecorderTest, RefusedStepsFailWhereOtherRanksRecordThem) {
  const auto gpu = MakeHostGpu({.can_record = false});
  StepRecorder recorder(*gpu);
  recorder.Begin(RecordSteps::kLikeOtherRanks);
  int calls = 0;
  const auto run = [&] {
    return recorder.Run({.step = {.rows = 1}}, [&] {
      calls += recorder.is_recording() ? 0 : 1;
      return absl::OkStatus();
    });
  };
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(run().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(recorder.has_refused());
  EXPECT_EQ(calls, 1);
  recorder.Begin(RecordSteps::kNever);
  for (int i = 2; i <= 4; ++i) {
    ASSERT_TRUE(run().ok());
    EXPECT_EQ(calls, i);
  }
}

TEST_F(StepRecorderTest, AnEpochsEndIsNoRefusal) {
  ASSERT_TRUE(Run(4).ok());
  result_ = absl::AbortedError("epoch 3");
  EXPECT_EQ(Run(4), result_);
  EXPECT_EQ(calls_, 2);
  EXPECT_FALSE(recorder_.has_refused());
}

TEST_F(StepRecorderTest, AFailureIsReturnedAndNothingRecorded) {
  ASSERT_TRUE(Run(4).ok());
  result_ = absl::AbortedError("epoch 3");
  EXPECT_EQ(Run(4), result_);
  result_ = absl::OkStatus();
  ASSERT_TRUE(Run(4).ok());
  EXPECT_EQ(Copied(6), 6);
}

}  // namespace
}  // namespace sluice::cuda
