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

HostMatrix Activated(Backend& backend, Activation activation, const HostMatrix& x,
                     int64_t padding = 0) {
  DeviceMatrix in(backend, x, padding), out(backend, x.rows, x.cols, padding);
  backend.Activate(activation, in.view(), out.view());
  return out.Read();
}

HostMatrix Gated(Backend& backend, Activation activation, const HostMatrix& gate_up,
                 int64_t padding = 0) {
  DeviceMatrix in(backend, gate_up, padding), out(backend, gate_up.rows, gate_up.cols / 2, padding);
  backend.ActivateGated(activation, in.view(), out.view());
  return out.Read();
}

TEST_P(ActivationTest, AgreesWithReference) {
  Random random(1);
  for (const Activation activation : kActivations) {
    for (int i = 0; i < 30; ++i) {
      const HostMatrix x = RandomMatrix(random, RandomInt(random, 1, 30),
                                        2 * RandomInt(random, 1, 300), i % 3 == 0 ? 40 : 1);
      // The functions of large negative numbers all but vanish.
      EXPECT_TRUE(IsNear(Activated(backend(), activation, x, i % 4),
                         Activated(reference(), activation, x), 2e-7, 1e-6))
          << Text(activation);
      EXPECT_TRUE(IsNear(Gated(backend(), activation, x, i % 4), Gated(reference(), activation, x),
                         2e-5, 1e-6))
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

TEST_P(ActivationTest, MayWriteOverItsInput) {
  Random random(3);
  const HostMatrix x = RandomMatrix(random, 5, 77);
  for (const Activation activation : kActivations) {
    DeviceMatrix in_place(backend(), x, 3);
    backend().Activate(activation, in_place.view(), in_place.view());
    EXPECT_TRUE(SameBits(in_place.Read(), Activated(backend(), activation, x)));
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

TEST_P(ActivationTest, RowsAndThreadsDoNotMatter) {
  Random random(5);
  const HostMatrix gate_up = RandomMatrix(random, 50, 2 * 700);
  for (const Activation activation : kActivations) {
    const HostMatrix together = Gated(backend(), activation, gate_up);
    EXPECT_TRUE(SameBits(Gated(*NewBackend(4), activation, gate_up), together));
    for (int64_t row = 0; row < gate_up.rows; ++row) {
      EXPECT_TRUE(
          SameBits(Gated(backend(), activation, gate_up.Rows(row, 1)), together.Rows(row, 1)));
    }
  }
}

}  // namespace
}  // namespace sluice::testing
