#include "services/sampler/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace sluice {
namespace {

// The known answers that the generator's authors publish with it (Random123, kat_vectors).
TEST(PhiloxTest, GivesThePublishedAnswers) {
  EXPECT_EQ(Philox4x32({0, 0}, {0, 0, 0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformTakesTheUpperBitsOfTheFirstTwoWords) {
  // Philox4x32({0, 0}, {0, 0, 0, 0}) as above: 0xe169c58d6627e8d5 / 2^64, rounded down to 2^-53.
  EXPECT_EQ(UniformFor(0, 0, 0), std::ldexp(0xe169c58d6627e8d5 >> 11, -53));
  EXPECT_NEAR(UniformFor(0, 0, 0), 0.88052019, 1e-8);
}

TEST(PhiloxTest, EveryPartOfTheKeyMatters) {
  std::set<double> numbers;
  for (const uint64_t seed : {0ull, 1ull, 1ull << 32, ~0ull}) {
    for (const int sequence : {0, 1, 2}) {
      for (const int position : {0, 1, 2, 511}) {
        numbers.insert(UniformFor(seed, sequence, position));
      }
    }
  }
  EXPECT_EQ(numbers.size(), 4u * 3 * 4);
}

TEST(PhiloxTest, UniformsFillTheUnitIntervalEvenly) {
  constexpr int kDraws = 100000;
  double sum = 0, squares = 0;
  for (int position = 0; position < kDraws; ++position) {
    const double u = UniformFor(42, 0, position);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  // Five standard deviations of the means of u and u^2.
  EXPECT_NEAR(sum / kDraws, 1.0 / 2, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kDraws));
}

}  // namespace
}  // namespace sluice
