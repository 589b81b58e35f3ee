#include <algorithm>
#include <cmath>

#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/primitives.h"
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

HostMatrix LayerNorm(Backend& backend, const HostMatrix& x, const HostMatrix& weight,
                     const HostMatrix* bias, float eps, int64_t padding = 0) {
  DeviceMatrix in(backend, x, padding), scale(backend, weight),
      out(backend, x.rows, x.cols, padding);
  DeviceMatrix shift(backend, bias == nullptr ? weight : *bias);
  backend.LayerNorm(in.view(), scale.data(), bias == nullptr ? nullptr : shift.data(), eps,
                    out.view());
  return out.Read();
}

TEST_P(NormTest, LayerNormAgreesWithReference) {
  Random random(4);
  for (int i = 0; i < 40; ++i) {
    const int64_t rows = RandomInt(random, 1, 40);
    const int64_t cols = RandomInt(random, 1, i % 8 == 0 ? 10000 : 300);
    HostMatrix x = RandomMatrix(random, rows, cols, 3);
    for (float& value : x.values) value += 10;
    const HostMatrix weight = RandomMatrix(random, 1, cols), bias = RandomMatrix(random, 1, cols);
    const HostMatrix* shift = i % 2 == 0 ? &bias : nullptr;
    EXPECT_TRUE(IsNear(LayerNorm(backend(), x, weight, shift, 1e-5f, i % 3),
                       LayerNorm(reference(), x, weight, shift, 1e-5f), 4e-6, 2e-6))
        << "[" << rows << ", " << cols << "]";
  }
}

TEST_P(NormTest, LayerNormCentresAndCountsEpsilon) {
  const HostMatrix x(2, 4, {5, 5, 5, 5, 1, 3, 1, 3});
  const HostMatrix weight(1, 4, {1, 1, 2, 2}), bias(1, 4, {0, 1, 2, 3});
  const float unit = 1 / std::sqrt(1.5F);
  EXPECT_TRUE(IsNear(LayerNorm(backend(), x, weight, &bias, 0.5F),
                     HostMatrix(2, 4, {0, 1, 2, 3, -unit, 1 + unit, 2 - 2 * unit, 3 + 2 * unit}),
                     1e-6));
}

TEST_P(NormTest, LayerNormRowsThreadsAndPlaceDoNotMatter) {
  Random random(5);
  const HostMatrix x = RandomMatrix(random, 30, 2100), weight = RandomMatrix(random, 1, 2100);
  const HostMatrix together = LayerNorm(backend(), x, weight, &weight, 1e-5f);
  for (int64_t row = 0; row < x.rows; ++row) {
    EXPECT_TRUE(SameBits(LayerNorm(backend(), x.Rows(row, 1), weight, &weight, 1e-5f),
                         together.Rows(row, 1)));
  }
  EXPECT_TRUE(SameBits(LayerNorm(*NewBackend(4), x, weight, &weight, 1e-5f), together));
  DeviceMatrix in_place(backend(), x, 3), scale(backend(), weight);
  backend().LayerNorm(in_place.view(), scale.data(), scale.data(), 1e-5f, in_place.view());
  EXPECT_TRUE(SameBits(in_place.Read(), together));
}

// Each head is a row of its own, so that a rank that holds some of them computes the same.
TEST_P(NormTest, HeadsAreNormalisedByThemselves) {
  Random random(6);
  for (const int head_dim : {1, 4, 33, 128}) {
    const HostMatrix x = RandomMatrix(random, 7, 5 * head_dim, 2);
    const HostMatrix weight = RandomMatrix(random, 1, head_dim);
    for (Backend* each : {&backend(), &reference()}) {
      DeviceMatrix in_place(*each, x, 3), scale(*each, weight);
      HeadRmsNorm(*each, in_place.view(), head_dim, scale.data(), 1e-5f);
      const HostMatrix result = in_place.Read();
      for (int head = 0; head < 5; ++head) {
        EXPECT_TRUE(SameBits(result.Columns(head * head_dim, head_dim),
                             RmsNorm(*each, x.Columns(head * head_dim, head_dim), weight, 1e-5f)))
            << each->name() << ", head " << head << " of " << head_dim;
      }
    }
  }
}

// Sums of squares of columns [begin, begin + count), as a rank that has them computes them.
HostMatrix SquaresOfPart(Backend& backend, const HostMatrix& x, int64_t begin, int64_t count,
                         int num_slices) {
  DeviceMatrix in(backend, x, 3), out(backend, x.rows, 1, 1);
  backend.SumSquares(in.view().Columns(begin, count), num_slices, out.view());
  return out.Read();
}

// GPUs do not share norms among ranks.
class SharedNormTest : public NormTest {
 protected:
  void SetUp() override {
    NormTest::SetUp();
    if (GetParam().is_gpu || GetParam().is_device) GTEST_SKIP() << "not an operation of GPUs";
  }
};
SLUICE_FOR_ALL_BACKENDS(SharedNormTest);

TEST_P(SharedNormTest, SquaresOfRanksJoinToThoseOfOne) {
  Random random(7);
  for (const int64_t slice : {1, 16, 33, 130}) {
    const HostMatrix x = RandomMatrix(random, 9, 8 * slice);
    const HostMatrix whole = SquaresOfPart(backend(), x, 0, 8 * slice, 8);
    EXPECT_TRUE(IsNear(whole, SquaresOfPart(reference(), x, 0, 8 * slice, 8), 0, 1e-6));
    for (const int ranks : {2, 4, 8}) {
      std::vector<DeviceMatrix> sums;
      std::vector<MatrixView> views;
      for (int rank = 0; rank < ranks; ++rank) {
        const int64_t width = 8 * slice / ranks;
        views.push_back(sums.emplace_back(backend(), SquaresOfPart(backend(), x, rank * width,
                                                                   width, 8 / ranks))
                            .view());
      }
      backend().TreeAdd(views, views[0]);
      EXPECT_TRUE(SameBits(sums[0].Read(), whole)) << ranks << " ranks, slices of " << slice;
    }
  }
}

TEST_P(SharedNormTest, NoColumnsHaveNoSquares) {
  Random random(8);
  const HostMatrix x = RandomMatrix(random, 3, 5);
  EXPECT_TRUE(SameBits(SquaresOfPart(backend(), x, 2, 0, 1), HostMatrix(3, 1, {0, 0, 0})));
}

TEST_P(SharedNormTest, PartsNormalisedBySquaresOfTheWholeAreTheWholeNormalised) {
  Random random(9);
  const HostMatrix x = RandomMatrix(random, 11, 96, 2), weight = RandomMatrix(random, 1, 96);
  const HostMatrix whole = RmsNorm(reference(), x, weight, 1e-2F);
  DeviceMatrix in_place(backend(), x, 3), scale(backend(), weight);
  DeviceMatrix squares(backend(), SquaresOfPart(backend(), x, 0, 96, 8));
  for (const int64_t begin : {0, 24}) {
    const int64_t count = begin == 0 ? 24 : 72;
    backend().RmsNormOfPart(in_place.view().Columns(begin, count), squares.view(), 96,
                            scale.data() + begin, 1e-2F);
  }
  EXPECT_TRUE(IsNear(in_place.Read(), whole, 2e-6, 1e-6));
}

}  // namespace
}  // namespace sluice::testing
