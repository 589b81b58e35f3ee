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

}  // namespace
}  // namespace sluice::testing
