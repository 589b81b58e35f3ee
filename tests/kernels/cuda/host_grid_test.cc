// The host's stand-in for a GPU: that it does what the instructions do, and that what it is there
// to notice is noticed.
#include "tests/gpu/host/simt/host_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/gemm_weights.h"

namespace sluice::cuda::on_host {
namespace {

using Order = HostBlock::Order;

// Numbers of a block's threads, summed over the block through shared memory; with a barrier missing
// where `barrier` is false.
std::vector<float> SumOfThreads(bool barrier, Order order) {
  std::vector<float> sums(64);
  RunGrid(
      {.blocks = 1, .threads = 64, .shared_bytes = 64 * sizeof(float)},
      [&] {
        auto* const shared = SharedMemory<float>();
        shared[Thread()] = static_cast<float>(Thread());
        if (barrier) Barrier();
        float sum = 0;
        for (int i = 0; i < NumThreads(); ++i) sum += shared[i];
        sums[Thread()] = sum;
      },
      order);
  return sums;
}

TEST(HostGrid, BarriersLetThreadsSeeEachOther) {
  for (const Order order : {Order::kAscending, Order::kDescending}) {
    for (const float sum : SumOfThreads(true, order)) EXPECT_EQ(sum, 63 * 32);
  }
}

TEST(HostGrid, AMissingBarrierIsNoticedInEitherOrder) {
  for (const Order order : {Order::kAscending, Order::kDescending}) {
    const std::vector<float> sums = SumOfThreads(false, order);
    EXPECT_TRUE(std::isnan(sums[order == Order::kAscending ? 0 : 63]));
  }
}

TEST(HostGrid, CopiesAreThereOnceTheyAreWaitedFor) {
  alignas(16) float source[4] = {1, 2, 3, 4};
  float before = 0, after = 0, zero = 1;
  RunGrid(
      {.blocks = 1, .threads = 32, .shared_bytes = 1024},
      [&] {
        auto* const shared = SharedMemory<float>();
        if (Thread() == 0) {
          CopyAsync(shared, source, true);
          CommitCopies();
          CopyAsync(shared + 4, source, false);
          CommitCopies();
          WaitForCopies<2>();
          before = shared[1];
          WaitForCopies<1>();
          after = shared[1];
          WaitForCopies<0>();
          zero = shared[5];
        }
        Barrier();
      },
      Order::kAscending);
  EXPECT_TRUE(std::isnan(before));
  EXPECT_EQ(after, 2);
  EXPECT_EQ(zero, 0);
}

TEST(HostGrid, CopiesOfAWordBringOneWordOnceTheyAreWaitedFor) {
  alignas(4) const float source[] = {1, 2};
  std::vector<float> before, after;
  RunGrid(
      {.blocks = 1, .threads = 32, .shared_bytes = 64},
      [&] {
        auto* const shared = SharedMemory<float>();
        if (Thread() == 0) {
          CopyWordAsync(shared + 1, source + 1, true);
          CopyWordAsync(shared + 3, source, false);
          CommitCopies();
          before.assign(shared, shared + 5);
          WaitForCopies<0>();
          after.assign(shared, shared + 5);
        }
        Barrier();
      },
      Order::kAscending);
  for (const float element : before) EXPECT_TRUE(std::isnan(element));
  EXPECT_EQ(after[1], 2);
  EXPECT_EQ(after[3], 0);
  for (const int neighbour : {0, 2, 4}) EXPECT_TRUE(std::isnan(after[neighbour]));
}

// What a warp reads of another's copies, with a barrier missing where `barrier` is false.
float WordOfAnotherWarp(bool barrier, Order order) {
  static const float source[] = {5};
  float seen[2];
  RunGrid(
      {.blocks = 1, .threads = 64, .shared_bytes = 64},
      [&] {
        auto* const shared = SharedMemory<float>();
        const int warp = Thread() / kWarpSize;
        if (Thread() % kWarpSize == 0) {
          CopyWordAsync(shared + warp, source, true);
          CommitCopies();
          WaitForCopies<0>();
        }
        if (barrier) Barrier();
        if (Thread() % kWarpSize == 0) seen[warp] = shared[1 - warp];
      },
      order);
  return seen[0] + seen[1];
}

TEST(HostGrid, AWordThatAnotherWarpCopiedNeedsABarrier) {
  for (const Order order : {Order::kAscending, Order::kDescending}) {
    EXPECT_EQ(WordOfAnotherWarp(true, order), 10);
    EXPECT_TRUE(std::isnan(WordOfAnotherWarp(false, order)));
  }
}

TEST(HostGrid, ShufflesAndVotes) {
  std::vector<int> crossed(32), moved(32);
  uint32_t votes = 0;
  RunGrid(
      {.blocks = 1, .threads = 32},
      [&] {
        crossed[Thread()] = ShuffleXor(Thread(), 5);
        moved[Thread()] = ShuffleUp(Thread(), 3);
        const uint32_t all = Ballot(Thread() % 3 == 0);
        if (Thread() == 7) votes = all;
      },
      Order::kDescending);
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(crossed[lane], lane ^ 5);
    EXPECT_EQ(moved[lane], lane < 3 ? lane : lane - 3);
    EXPECT_EQ(votes >> lane & 1, lane % 3 == 0 ? 1u : 0u);
  }
}

TEST(HostGridDeathTest, ThreadsThatWaitForOneThatReturnedEndTheProcess) {
  const auto run = [] {
    RunGrid(
        {.blocks = 1, .threads = 32},
        [] {
          if (Thread() != 3) Barrier();
        },
        Order::kAscending);
  };
  EXPECT_DEATH(run(), "others have returned");
}

TEST(HostGridDeathTest, CopiesOfAddressesThatAnInstructionRefusesEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  alignas(16) static const char source[32] = {};
  const auto run = [](auto copy) {
    RunGrid(
        {.blocks = 1, .threads = 32, .shared_bytes = 64}, [&] { copy(SharedMemory<char>()); },
        Order::kAscending);
  };
  run([](char* shared) { CopyWordAsync(shared + 4, source + 8, true); });
  EXPECT_DEATH(run([](char* shared) { CopyWordAsync(shared + 2, source, true); }),
               "no multiple of its bytes");
  EXPECT_DEATH(run([](char* shared) { CopyWordAsync(shared, source + 3, true); }),
               "no multiple of its bytes");
  EXPECT_DEATH(run([](char* shared) { CopyAsync(shared + 4, source, true); }),
               "no multiple of its bytes");
}

TEST(HostGridDeathTest, LanesThatMeetInDifferentOperationsEndTheProcess) {
  const auto run = [] {
    RunGrid(
        {.blocks = 1, .threads = 32},
        [] {
          if (Thread() % 2 == 0) {
            WarpBarrier();
          } else {
            Ballot(true);
          }
        },
        Order::kAscending);
  };
  EXPECT_DEATH(run(), "different operations");
}

// ---- Tiles ----

struct Product {
  float a[16][16], b[16][8], c[16][8];

  explicit Product(uint32_t seed) {
    std::mt19937 random(seed);
    const auto draw = [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8); };
    for (auto& row : a) {
      for (float& element : row) element = draw();
    }
    for (auto& row : b) {
      for (float& element : row) element = draw();
    }
    for (int row = 0; row < 16; ++row) {
      for (int col = 0; col < 8; ++col) {
        c[row][col] = 0;
        for (int k = 0; k < 16; ++k) c[row][col] += a[row][k] * b[k][col];
      }
    }
  }
};

// A (rows of 16) and B (rows are columns, as activations lie) through shared memory, ldmatrix and
// mma. `swapped` exchanges two registers of A, as a kernel that reads the manual wrongly would.
Product Multiplied(const Product& in, bool swapped) {
  Product out = in;
  for (auto& row : out.c) std::fill_n(row, 8, std::nanf(""));
  RunGrid(
      {.blocks = 1, .threads = 32, .shared_bytes = 16 * 32 + 8 * 32},
      [&] {
        auto* const a = SharedMemory<uint16_t>();
        uint16_t* const b = a + 16 * 16;
        for (int i = Thread(); i < 16 * 16; i += 32) {
          a[i] = BFloat16FromFloat(in.a[i / 16][i % 16]);
        }
        for (int i = Thread(); i < 8 * 16; i += 32) {
          b[i] = BFloat16FromFloat(in.b[i % 16][i / 16]);
        }
        Barrier();
        const int matrix = Thread() / 8, row = Thread() % 8;
        uint32_t of_a[4], of_b[4];
        LoadMatrices(a + (matrix % 2 * 8 + row) * 16 + matrix / 2 * 8, of_a);
        LoadMatrices(b + row * 16 + matrix % 2 * 8, of_b);
        if (swapped) std::swap(of_a[1], of_a[2]);
        float c[4] = {};
        MultiplyTiles(of_a, of_b[0], of_b[1], c);
        for (int i = 0; i < 4; ++i) {
          const TileElement at = ElementOfC(Thread(), i);
          out.c[at.row][at.col] = c[i];
        }
      },
      Order::kAscending);
  return out;
}

// Numbers are whole, so that nothing is rounded.
bool HaveTheSameProducts(const Product& one, const Product& other) {
  return std::equal(&one.c[0][0], &one.c[0][0] + 16 * 8, &other.c[0][0]);
}

TEST(HostTiles, ProductsOfLoadedMatricesAreProducts) {
  for (uint32_t seed = 0; seed < 5; ++seed) {
    const Product in(seed);
    const Product out = Multiplied(in, false);
    EXPECT_TRUE(HaveTheSameProducts(out, in));
  }
}

TEST(HostTiles, ASwappedFragmentIsNoticed) {
  const Product in(1);
  const Product out = Multiplied(in, true);
  EXPECT_FALSE(HaveTheSameProducts(out, in));
}

TEST(HostTiles, TransposedMatricesAreTransposed) {
  uint16_t found[16][16] = {};
  RunGrid(
      {.blocks = 1, .threads = 32, .shared_bytes = 16 * 32},
      [&] {
        auto* const a = SharedMemory<uint16_t>();
        for (int i = Thread(); i < 256; i += 32) a[i] = static_cast<uint16_t>(i);
        Barrier();
        uint32_t out[4];
        const int matrix = Thread() / 8, row = Thread() % 8;
        LoadTransposed(a + (matrix / 2 * 8 + row) * 16 + matrix % 2 * 8, out);
        for (int i = 0; i < 4; ++i) {
          // Of matrix i the lane has column lane / 4, rows lane % 4 * 2 and the next.
          const int r = i / 2 * 8 + Thread() % 4 * 2, c = i % 2 * 8 + Thread() / 4;
          found[r][c] = static_cast<uint16_t>(out[i]);
          found[r + 1][c] = static_cast<uint16_t>(out[i] >> 16);
        }
      },
      Order::kAscending);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(found[i / 16][i % 16], i);
}

TEST(HostTiles, WholeNumbersBecomeBFloat16Exactly) {
  for (int q = -127; q <= 127; ++q) {
    const uint32_t byte = static_cast<uint8_t>(q);
    const uint32_t word = byte | byte << 16;
    const uint32_t pair =
        SubtractBFloat16((word & 0x007f007fu) | 0x43004300u, (word & 0x00800080u) | 0x43004300u);
    EXPECT_EQ(FloatFromBFloat16(static_cast<uint16_t>(pair)), q);
    EXPECT_EQ(FloatFromBFloat16(static_cast<uint16_t>(pair >> 16)), q);
  }
}

// ---- Weights in FP8 ----

// How a unit of codes may be written wrongly.
enum class Layout {
  kRight,
  kRowsExchanged,
  kFragmentsExchanged,
  kScalesExchanged,
  kScalesAsTheyAre
};

// Whether lanes load the numbers of a unit that was written so.
bool LoadsItsNumbers(Layout layout) {
  constexpr ImageFormat kFormat = ImageFormat::kFp8;
  std::mt19937 random(5);
  alignas(16) char unit[UnitBytes(kFormat)];
  float numbers[kTileOutputs][kUnitInputs];
  for (int row = 0; row < kTileOutputs; ++row) {
    for (int col = 0; col < kUnitInputs; ++col) {
      // Of every size, below the least normal one too; not the two that are no numbers.
      const auto code = static_cast<uint8_t>(random() % 127 + random() % 2 * 128);
      const int group = col / 32;
      const float scale = std::ldexp(1.0F, row % 5 - group);
      numbers[row][col] = FloatFromFp8(code) * scale;
      const int to_row = layout == Layout::kRowsExchanged ? (row + 8) % 16 : row;
      const int to_col = layout == Layout::kFragmentsExchanged ? (col + 16) % 64 : col;
      unit[PlaceInUnit(kFormat, to_row, to_col).byte] = static_cast<char>(code);
      const float packed = layout == Layout::kScalesAsTheyAre ? scale : std::ldexp(scale, 120);
      const uint16_t bits = BFloat16FromFloat(packed);
      const int to_group = layout == Layout::kScalesExchanged ? 1 - group : group;
      std::memcpy(unit + ScaleOffset(kFormat, row, to_group), &bits, sizeof(bits));
    }
  }
  for (int group = 0; group < kUnitGroups; ++group) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      uint32_t a[kGroupFragments][4];
      LoadGroup<kFormat>(unit, group, lane, a);
      for (int i = 0; i < kGroupFragments * 8; ++i) {
        const int fragment = i / 8;
        const auto [row, col] = ElementOfA(lane, i % 8);
        const uint32_t pair = a[fragment][i % 8 / 2];
        const float loaded = FloatFromBFloat16(static_cast<uint16_t>(pair >> (i % 2 * 16)));
        if (loaded != numbers[row][group * kGroupInputs + fragment * kFragmentInputs + col]) {
          return false;
        }
      }
    }
  }
  return true;
}

TEST(Fp8Weights, LanesLoadTheNumbersOfTheirCodes) { EXPECT_TRUE(LoadsItsNumbers(Layout::kRight)); }

TEST(Fp8Weights, AnotherLayoutIsNoticed) {
  EXPECT_FALSE(LoadsItsNumbers(Layout::kRowsExchanged));
  EXPECT_FALSE(LoadsItsNumbers(Layout::kFragmentsExchanged));
  EXPECT_FALSE(LoadsItsNumbers(Layout::kScalesExchanged));
  EXPECT_FALSE(LoadsItsNumbers(Layout::kScalesAsTheyAre));
}

}  // namespace
}  // namespace sluice::cuda::on_host
