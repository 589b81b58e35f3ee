#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using ElementwiseTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(ElementwiseTest);

HostMatrix Sum(Backend& backend, const HostMatrix& x, const HostMatrix& y, int64_t padding = 0) {
  DeviceMatrix from(backend, x, padding), to(backend, y, padding);
  backend.AddResidual(from.view(), to.view());
  return to.Read();
}

HostMatrix Scaled(Backend& backend, float factor, const HostMatrix& x, int64_t padding = 0) {
  DeviceMatrix in_place(backend, x, padding);
  backend.Scale(factor, in_place.view());
  return in_place.Read();
}

TEST_P(ElementwiseTest, ScaleMultipliesWithOneRounding) {
  Random random(6);
  for (int i = 0; i < 20; ++i) {
    const HostMatrix x = RandomMatrix(random, RandomInt(random, 1, 30), RandomInt(random, 1, 300));
    const float factor = RandomMatrix(random, 1, 1).At(0, 0);
    EXPECT_TRUE(SameBits(Scaled(backend(), factor, x, i % 4), Scaled(reference(), factor, x)));
  }
}

TEST_P(ElementwiseTest, ScaleRowsMultipliesEveryRowByItsFactor) {
  Random random(7);
  for (int i = 0; i < 20; ++i) {
    const int64_t rows = RandomInt(random, 1, 30), cols = RandomInt(random, 1, 300);
    const HostMatrix x = RandomMatrix(random, rows, cols);
    const HostMatrix factors = RandomMatrix(random, 1, rows);
    HostMatrix expected = x;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t col = 0; col < cols; ++col) expected.At(row, col) *= factors.At(0, row);
    }
    for (Backend* each : {&backend(), &reference()}) {
      DeviceMatrix device_factors(*each, factors), in_place(*each, x, i % 4);
      each->ScaleRows(device_factors.data(), in_place.view());
      EXPECT_TRUE(SameBits(in_place.Read(), expected)) << each->name();
    }
  }
}

HostMatrix Capped(Backend& backend, float cap, const HostMatrix& x, int64_t padding = 0) {
  DeviceMatrix in_place(backend, x, padding);
  backend.SoftCap(cap, in_place.view());
  return in_place.Read();
}

TEST_P(ElementwiseTest, SoftCapAgreesWithReference) {
  Random random(8);
  for (int i = 0; i < 20; ++i) {
    const float cap = std::exp2(static_cast<float>(RandomInt(random, -3, 7)));
    const HostMatrix x =
        RandomMatrix(random, RandomInt(random, 1, 30), RandomInt(random, 1, 300), 3 * cap);
    EXPECT_TRUE(IsNear(Capped(backend(), cap, x, i % 4), Capped(reference(), cap, x), 3e-7 * cap));
  }
}

TEST_P(ElementwiseTest, SoftCapReachesItsLimitsAndKeepsWhatIsNoNumber) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float none = std::numeric_limits<float>::quiet_NaN();
  const HostMatrix x(1, 6, {0, 1e30F, -1e30F, infinity, -infinity, none});
  EXPECT_TRUE(IsNear(Capped(backend(), 30, x), HostMatrix(1, 6, {0, 30, -30, 30, -30, none}), 0));
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
      AddBias(*each, device_bias.data(), in_place.view());
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
  const HostMatrix x = RandomMatrix(random, 50, 2000), y = RandomMatrix(random, 50, 2000);
  const HostMatrix together = Sum(backend(), x, y);
  EXPECT_TRUE(SameBits(Sum(*NewBackend(4), x, y), together));
  for (int64_t row = 0; row < x.rows; ++row) {
    EXPECT_TRUE(SameBits(Sum(backend(), x.Rows(row, 1), y.Rows(row, 1)), together.Rows(row, 1)));
  }
}

}  // namespace
}  // namespace sluice::testing
