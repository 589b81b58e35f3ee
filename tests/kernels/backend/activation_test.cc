#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using ActivationTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(ActivationTest);

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr Activation kActivations[] = {Activation::kRelu, Activation::kSilu, Activation::kGelu,
                                       Activation::kGeluTanh};

std::string Text(Activation activation) {
  return "activation " + std::to_string(static_cast<int>(activation));
}

// An activation is the end of a product: here of the number 1 with weights that are the elements.
HostMatrix ProductOfOne(Backend& backend, Activation activation, const HostMatrix& elements,
                        bool gated) {
  const DeviceMatrix one(backend, HostMatrix(1, 1, {1}));
  HostMatrix result(elements.rows, elements.cols / (gated ? 2 : 1));
  for (int64_t t = 0; t < elements.rows; ++t) {
    const HostMatrix weights(elements.cols, 1, elements.Rows(t, 1).values);
    DeviceMatrix out(backend, 1, result.cols, t % 4);
    const auto packed = Pack(backend, weights, {.gated = gated});
    backend.Gemm(one.view(), *packed, out.view(), {.activation = activation});
    const HostMatrix row = out.Read();
    std::copy(row.values.begin(), row.values.end(), &result.At(t, 0));
  }
  return result;
}

HostMatrix Activated(Backend& backend, Activation activation, const HostMatrix& x) {
  return ProductOfOne(backend, activation, x, false);
}

HostMatrix Gated(Backend& backend, Activation activation, const HostMatrix& gate_up) {
  return ProductOfOne(backend, activation, gate_up, true);
}

TEST_P(ActivationTest, AgreesWithReference) {
  Random random(1);
  for (const Activation activation : kActivations) {
    for (int i = 0; i < 30; ++i) {
      const HostMatrix x = RandomMatrix(random, RandomInt(random, 1, 9),
                                        2 * RandomInt(random, 1, 300), i % 3 == 0 ? 40 : 1);
      // The functions of large negative numbers all but vanish.
      EXPECT_TRUE(IsNear(Activated(backend(), activation, x), Activated(reference(), activation, x),
                         2e-7, 1e-6))
          << Text(activation);
      EXPECT_TRUE(
          IsNear(Gated(backend(), activation, x), Gated(reference(), activation, x), 2e-5, 1e-6))
          << Text(activation);
    }
  }
}

// Every size from the smallest step to the largest, both signs.
TEST_P(ActivationTest, AgreesWithReferenceAllAlongTheLine) {
  HostMatrix x(2, 20001);
  for (int i = 0; i < 20001; ++i) {
    x.At(0, i) = static_cast<float>(i - 10000) * 1e-3F;
    x.At(1, i) = std::ldexp(i % 2 == 0 ? 1.0F : -1.0F, i / 80 - 125) * (1 + (i % 80) / 80.0F);
  }
  for (const Activation activation : kActivations) {
    EXPECT_TRUE(IsNear(Activated(backend(), activation, x), Activated(reference(), activation, x),
                       3e-7, 4e-7))
        << Text(activation);
  }
}

TEST_P(ActivationTest, SwiGluOfFewGatesIsPrecise) {
  Random random(2);
  const HostMatrix gate_up = RandomMatrix(random, 20, 500);
  EXPECT_TRUE(IsNear(Gated(backend(), Activation::kSilu, gate_up),
                     Gated(reference(), Activation::kSilu, gate_up), 1e-34, 1e-6));
}

TEST_P(ActivationTest, TheEnds) {
  const HostMatrix x(1, 5, {0, 200, -200, kInfinity, kNaN});
  for (const Activation activation : kActivations) {
    const HostMatrix result = Activated(backend(), activation, x);
    EXPECT_EQ(result.At(0, 0), 0) << Text(activation);
    EXPECT_EQ(result.At(0, 1), 200) << Text(activation);
    EXPECT_EQ(result.At(0, 2), 0) << Text(activation);
    EXPECT_EQ(result.At(0, 3), kInfinity) << Text(activation);
    EXPECT_TRUE(std::isnan(result.At(0, 4))) << Text(activation);
  }
}

// A rank holds some columns of the whole: a number's bits are its own, wherever it stands.
TEST_P(ActivationTest, PlaceInTheRowDoesNotMatter) {
  Random random(4);
  const HostMatrix x = RandomMatrix(random, 1, 67, 3);
  for (const Activation activation : kActivations) {
    const HostMatrix whole = Activated(backend(), activation, x);
    for (int64_t begin = 0; begin < 40; ++begin) {
      const int64_t count = 67 - begin - begin % 3;
      EXPECT_TRUE(SameBits(Activated(backend(), activation, x.Columns(begin, count)),
                           whole.Columns(begin, count)))
          << Text(activation) << " from " << begin;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
