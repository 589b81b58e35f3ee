#include <algorithm>

#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using NormTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(NormTest);

HostMatrix RmsNorm(Backend& backend, const HostMatrix& x, const HostMatrix& weight, float eps,
                   int64_t padding = 0) {
  DeviceMatrix in(backend, x, padding), scale(backend, weight),
      out(backend, x.rows, x.cols, padding);
  backend.RmsNorm(in.view(), scale.data(), eps, out.view());
  return out.Read();
}

TEST_P(NormTest, AgreesWithReference) {
  Random random(1);
  for (int i = 0; i < 40; ++i) {
    const int64_t rows = RandomInt(random, 1, 40);
    const int64_t cols = RandomInt(random, 1, i % 8 == 0 ? 10000 : 300);
    const HostMatrix x = RandomMatrix(random, rows, cols, 3);
    const HostMatrix weight = RandomMatrix(random, 1, cols);
    EXPECT_TRUE(IsNear(RmsNorm(backend(), x, weight, 1e-5f, i % 3),
                       RmsNorm(reference(), x, weight, 1e-5f), 1e-7, 1e-6))
        << "[" << rows << ", " << cols << "]";
  }
}

TEST_P(NormTest, EpsilonKeepsZeroesZero) {
  const HostMatrix ones(1, 37, std::vector<float>(37, 1.0f));
  EXPECT_TRUE(SameBits(RmsNorm(backend(), HostMatrix(2, 37), ones, 1e-6f), HostMatrix(2, 37)));
}

TEST_P(NormTest, EpsilonCounts) {
  const HostMatrix x(1, 4, {1e-3f, 1e-3f, 1e-3f, 1e-3f});
  const HostMatrix ones(1, 4, {1, 1, 1, 1});
  const HostMatrix expected(1, 4, std::vector<float>(4, 0.70710678f));
  EXPECT_TRUE(IsNear(RmsNorm(backend(), x, ones, 1e-6f), expected, 1e-6));
}

TEST_P(NormTest, MayWriteOverItsInput) {
  Random random(2);
  const HostMatrix x = RandomMatrix(random, 5, 77), weight = RandomMatrix(random, 1, 77);
  DeviceMatrix in_place(backend(), x, 3), scale(backend(), weight);
  backend().RmsNorm(in_place.view(), scale.data(), 1e-5f, in_place.view());
  EXPECT_TRUE(SameBits(in_place.Read(), RmsNorm(backend(), x, weight, 1e-5f)));
}

TEST_P(NormTest, RowsAndThreadsDoNotMatter) {
  Random random(3);
  const HostMatrix x = RandomMatrix(random, 30, 2100), weight = RandomMatrix(random, 1, 2100);
  const HostMatrix together = RmsNorm(backend(), x, weight, 1e-5f);
  for (int64_t row = 0; row < x.rows; ++row) {
    EXPECT_TRUE(SameBits(RmsNorm(backend(), x.Rows(row, 1), weight, 1e-5f), together.Rows(row, 1)));
  }
  for (const int num_threads : {1, 4}) {
    const auto other = NewBackend(num_threads);
    EXPECT_TRUE(SameBits(RmsNorm(*other, x, weight, 1e-5f), together));
  }
}

}  // namespace
}  // namespace sluice::testing
