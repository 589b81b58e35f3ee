#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using ElementwiseTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(ElementwiseTest);

HostMatrix SwiGlu(Backend& backend, const HostMatrix& gate_up, int64_t padding = 0) {
  DeviceMatrix in(backend, gate_up, padding), out(backend, gate_up.rows, gate_up.cols / 2, padding);
  backend.SwiGlu(in.view(), out.view());
  return out.Read();
}

HostMatrix Sum(Backend& backend, const HostMatrix& x, const HostMatrix& y, int64_t padding = 0) {
  DeviceMatrix from(backend, x, padding), to(backend, y, padding);
  backend.AddResidual(from.view(), to.view());
  return to.Read();
}

TEST_P(ElementwiseTest, SwiGluAgreesWithReference) {
  Random random(1);
  for (int i = 0; i < 30; ++i) {
    const HostMatrix gate_up = RandomMatrix(random, RandomInt(random, 1, 30),
                                            2 * RandomInt(random, 1, 300), i % 3 == 0 ? 40 : 1);
    // Gates below -88, whose exponential overflows, may give zero.
    EXPECT_TRUE(
        IsNear(SwiGlu(backend(), gate_up, i % 4), SwiGlu(reference(), gate_up), 1e-34, 1e-6));
  }
}

TEST_P(ElementwiseTest, SwiGluAtTheEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const HostMatrix gate_up(1, 10, {0, 200, -200, kInfinity, kNaN, 1, 1, 1, 1, 1});
  const HostMatrix result = SwiGlu(backend(), gate_up);
  EXPECT_EQ(result.At(0, 0), 0);
  EXPECT_EQ(result.At(0, 1), 200);
  EXPECT_EQ(result.At(0, 2), 0);
  EXPECT_EQ(result.At(0, 3), kInfinity);
  EXPECT_TRUE(std::isnan(result.At(0, 4)));
}

TEST_P(ElementwiseTest, AddResidualAddsWithOneRounding) {
  Random random(2);
  for (int i = 0; i < 20; ++i) {
    const int64_t rows = RandomInt(random, 1, 30), cols = RandomInt(random, 1, 300);
    const HostMatrix x = RandomMatrix(random, rows, cols), y = RandomMatrix(random, rows, cols);
    EXPECT_TRUE(SameBits(Sum(backend(), x, y, i % 4), Sum(reference(), x, y)));
  }
}

TEST_P(ElementwiseTest, AddBiasAddsToEveryRowWithOneRounding) {
  Random random(5);
  for (int i = 0; i < 20; ++i) {
    const int64_t rows = RandomInt(random, 1, 30), cols = RandomInt(random, 1, 300);
    const HostMatrix x = RandomMatrix(random, rows, cols), bias = RandomMatrix(random, 1, cols);
    HostMatrix expected = x;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t col = 0; col < cols; ++col) expected.At(row, col) += bias.At(0, col);
    }
    for (Backend* each : {&backend(), &reference()}) {
      DeviceMatrix device_bias(*each, bias), in_place(*each, x, i % 4);
      each->AddBias(device_bias.data(), in_place.view());
      EXPECT_TRUE(SameBits(in_place.Read(), expected)) << each->name();
    }
  }
}

TEST_P(ElementwiseTest, TreeAddJoinsNeighbours) {
  Random random(3);
  for (const int count : {1, 2, 4, 8, 16}) {
    const int64_t rows = RandomInt(random, 1, 20), cols = RandomInt(random, 1, 100);
    std::vector<DeviceMatrix> ours, theirs;
    std::vector<MatrixView> our_views, their_views;
    for (int i = 0; i < count; ++i) {
      const HostMatrix partial = RandomMatrix(random, rows, cols);
      our_views.push_back(ours.emplace_back(backend(), partial, 2).view());
      their_views.push_back(theirs.emplace_back(reference(), partial).view());
    }
    DeviceMatrix actual(backend(), rows, cols, 1), expected(reference(), rows, cols);
    backend().TreeAdd(our_views, actual.view());
    reference().TreeAdd(their_views, expected.view());
    EXPECT_TRUE(SameBits(actual.Read(), expected.Read())) << count << " partials";
    // Any of them may receive the sum.
    const int64_t target = RandomInt(random, 0, count - 1);
    backend().TreeAdd(our_views, our_views[target]);
    EXPECT_TRUE(SameBits(ours[target].Read(), expected.Read())) << "into partial " << target;
  }
}

TEST_P(ElementwiseTest, RowsAndThreadsDoNotMatter) {
  Random random(4);
  const HostMatrix gate_up = RandomMatrix(random, 50, 2 * 700);
  const HostMatrix together = SwiGlu(backend(), gate_up);
  EXPECT_TRUE(SameBits(SwiGlu(*NewBackend(4), gate_up), together));
  for (int64_t row = 0; row < gate_up.rows; ++row) {
    EXPECT_TRUE(SameBits(SwiGlu(backend(), gate_up.Rows(row, 1)), together.Rows(row, 1)));
  }
}

}  // namespace
}  // namespace sluice::testing
