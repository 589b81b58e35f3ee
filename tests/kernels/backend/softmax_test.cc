#include <cmath>
#include <limits>

#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using SoftmaxTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(SoftmaxTest);

HostMatrix LogSoftmax(Backend& backend, const HostMatrix& x, int64_t padding = 0) {
  DeviceMatrix in(backend, x, padding), out(backend, x.rows, x.cols, padding);
  backend.LogSoftmax(in.view(), out.view());
  return out.Read();
}

TEST_P(SoftmaxTest, AgreesWithReference) {
  Random random(1);
  for (int i = 0; i < 40; ++i) {
    const int64_t rows = RandomInt(random, 1, 12);
    const int64_t cols = RandomInt(random, 1, i % 8 == 0 ? 40000 : 300);
    const float deviation = i % 3 == 0 ? 40 : 2;
    const HostMatrix x = RandomMatrix(random, rows, cols, deviation);
    EXPECT_TRUE(IsNear(LogSoftmax(backend(), x, i % 4), LogSoftmax(reference(), x), 1e-6, 4e-7))
        << "[" << rows << ", " << cols << "]";
  }
}

TEST_P(SoftmaxTest, LargeScoresDoNotOverflow) {
  const HostMatrix x(1, 3, {3e38f, 3e38f, -3e38f});
  const HostMatrix result = LogSoftmax(backend(), x);
  EXPECT_NEAR(result.At(0, 0), -std::log(2.0), 1e-6);
  EXPECT_NEAR(result.At(0, 1), -std::log(2.0), 1e-6);
  EXPECT_LE(result.At(0, 2), -3e38f);
}

TEST_P(SoftmaxTest, MaskedScoresStayMasked) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const HostMatrix result = LogSoftmax(backend(), HostMatrix(1, 3, {1, -kInfinity, 1}));
  EXPECT_NEAR(result.At(0, 0), -std::log(2.0), 1e-6);
  EXPECT_EQ(result.At(0, 1), -kInfinity);
}

TEST_P(SoftmaxTest, NaNIsNotHidden) {
  HostMatrix x(1, 50);
  x.At(0, 20) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(LogSoftmax(backend(), x).At(0, 0)));
}

TEST_P(SoftmaxTest, RowsThreadsAndAliasingDoNotMatter) {
  Random random(2);
  const HostMatrix x = RandomMatrix(random, 20, 5003, 3);
  const HostMatrix together = LogSoftmax(backend(), x);
  for (int64_t row = 0; row < x.rows; ++row) {
    EXPECT_TRUE(SameBits(LogSoftmax(backend(), x.Rows(row, 1)), together.Rows(row, 1)));
  }
  for (const int num_threads : {1, 4}) {
    EXPECT_TRUE(SameBits(LogSoftmax(*NewBackend(num_threads), x), together));
  }
  DeviceMatrix in_place(backend(), x);
  backend().LogSoftmax(in_place.view(), in_place.view());
  EXPECT_TRUE(SameBits(in_place.Read(), together));
}

}  // namespace
}  // namespace sluice::testing
