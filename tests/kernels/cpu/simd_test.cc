// What every SIMD target has to compute alike, down to the bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/cpu/simd_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

void Exponentials(const float* x, int64_t count, float* out) {
  ForEachVector(count, [=](auto d, int64_t i)
                           HWY_ATTR { hn::StoreU(Exp(d, hn::LoadU(d, x + i)), d, out + i); });
}

double Sum(const float* x, int64_t count) {
  return FixedOrderSum(count, [=](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {
namespace {

HWY_EXPORT(Exponentials);
HWY_EXPORT(Sum);

// The bits of multiply-adds are others where they are not fused.
constexpr int64_t kUnfused = HWY_SCALAR;

// Calls `check` with each target but for some.
template <class F>
void ForEachTarget(int64_t but, const F& check) {
  const auto use = [](int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  };
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if ((target & but) != 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    use(target);
    check();
  }
  use(0);
}

// Every 997th float, and what lies about the ends of what a result can be.
std::vector<float> Arguments() {
  std::vector<float> x = {0.0F, -0.0F, 88.72F, 88.73F, 89, 1e9F, -87.3F, -87.4F, -103.9F, -104};
  x.push_back(std::numeric_limits<float>::infinity());
  x.push_back(-std::numeric_limits<float>::infinity());
  for (uint32_t bits = 0; bits < 0xfffffc00; bits += 997) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isnan(value)) x.push_back(value);
  }
  return x;
}

TEST(Exp, HasTheSameBitsOnTargetsThatFuseAndIsNear) {
  const std::vector<float> x = Arguments();
  std::vector<float> first;
  ForEachTarget(kUnfused, [&] {
    std::vector<float> out(x.size());
    HWY_DYNAMIC_DISPATCH(Exponentials)(x.data(), static_cast<int64_t>(x.size()), out.data());
    if (first.empty()) first = out;
    ASSERT_EQ(std::memcmp(out.data(), first.data(), out.size() * sizeof(float)), 0);
  });
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = x[i] > 88.73F ? std::numeric_limits<double>::infinity() : std::exp(x[i]);
    if (std::isinf(exact)) {
      ASSERT_TRUE(std::isinf(first[i])) << x[i];
    } else {
      ASSERT_NEAR(first[i], exact, 3e-7 * exact + 1.5e-45) << x[i];
    }
  }
}

TEST(Exp, OfWhatIsNoNumberIsNone) {
  const std::vector<float> x(33, std::numeric_limits<float>::quiet_NaN());
  ForEachTarget(0, [&] {
    std::vector<float> out(x.size());
    HWY_DYNAMIC_DISPATCH(Exponentials)(x.data(), static_cast<int64_t>(x.size()), out.data());
    for (const float each : out) EXPECT_TRUE(std::isnan(each));
  });
}

// As the header words it: sixteen running sums, joined pairwise after every 4096 elements.
double PlainSum(const std::vector<float>& x) {
  double total = 0;
  for (size_t begin = 0; begin < x.size(); begin += 4096) {
    float sums[16] = {};
    for (size_t i = begin; i < std::min(x.size(), begin + 4096); ++i) sums[i % 16] += x[i];
    for (int half = 8; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    }
    total += sums[0];
  }
  return total;
}

TEST(FixedOrderSum, IsThatOfPlainLoopsOnEveryTarget) {
  std::mt19937 random(7);
  for (const int64_t count : {0, 1, 15, 16, 17, 960, 4095, 4096, 4097, 10007}) {
    std::vector<float> x(count);
    for (float& each : x) each = std::normal_distribution<float>()(random);
    const double expected = PlainSum(x);
    ForEachTarget(
        0, [&] { EXPECT_EQ(HWY_DYNAMIC_DISPATCH(Sum)(x.data(), count), expected) << count; });
  }
}

}  // namespace
}  // namespace sluice
#endif  // HWY_ONCE
