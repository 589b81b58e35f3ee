#include "services/rows/step_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "services/rows/tensor.h"
#include "tests/kernels/testing/async_backend.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;

v1::Tensor TensorOf(const std::vector<float>& values, int64_t cols) {
  v1::Tensor tensor = NewTensor(DType::kF32, {static_cast<int64_t>(values.size()) / cols, cols});
  std::memcpy(tensor.mutable_data()->data(), values.data(), values.size() * sizeof(float));
  return tensor;
}

std::vector<float> ValuesOf(const absl::StatusOr<v1::Tensor>& tensor) {
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  if (!tensor.ok()) return {};
  std::vector<float> values(tensor->data().size() / sizeof(float));
  std::memcpy(values.data(), tensor->data().data(), tensor->data().size());
  return values;
}

// On a backend that works later, in memory of its own.
class StepRowsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = MakeAsyncBackend(MakeReferenceBackend());
};

TEST_F(StepRowsTest, StoresAllRowsOrThoseNamed) {
  StepRows rows(*backend_, 2);
  ASSERT_TRUE(rows.Load(TensorOf({1, 2, 3, 4, 5, 6}, 2)).ok());
  EXPECT_THAT(ValuesOf(rows.Store()), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(ValuesOf(rows.Store({2, 0})), ElementsAre(5, 6, 1, 2));
  EXPECT_THAT(ValuesOf(rows.Store({1, 1, 1})), ElementsAre(3, 4, 3, 4, 3, 4));
  EXPECT_THAT(ValuesOf(rows.Store(absl::Span<const int32_t>())), ElementsAre());
}

TEST_F(StepRowsTest, RefusesRowsThatTheStepLacks) {
  StepRows rows(*backend_, 2);
  ASSERT_TRUE(rows.Load(TensorOf({1, 2, 3, 4}, 2)).ok());
  for (const int32_t row : {-1, 2}) {
    EXPECT_EQ(rows.Store({0, row}).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(rows.Load(TensorOf({1, 2, 3}, 3)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(StepRowsTest, ARefusedStepLeavesNoWorkThatUsesRowsThatAreGone) {
  {
    StepRows rows(*backend_, 2);
    ASSERT_TRUE(rows.Load(TensorOf({1, 2, 3, 4}, 2)).ok());
  }
  EXPECT_TRUE(backend_->Synchronize().ok());
}

}  // namespace
}  // namespace sluice::testing
