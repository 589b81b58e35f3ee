// Multiplies by four warps on the host: that they read shared memory as the descriptor's layout is
// documented, and that what a GPU would punish is noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/shared_descriptor.h"
#include "kernels/fp8.h"
#include "simt.h"
#include "tests/gpu/host/simt/host_grid.h"

namespace sluice::cuda::on_host {
namespace {

using Order = HostBlock::Order;

constexpr int kOutputs = 64, kInputs = 64, kTokens = 16;
constexpr int kThreads = 4 * kWarpSize;

// What a kernel does wrong.
enum class Mistake {
  kNone,
  kNoWait,           // reads sums that it has not waited for
  kPlainRows,        // rows without the swizzle
  kNextRowGroup,     // goes on to other rows instead of columns
  kNotShown,         // copies that multiplies were not shown
  kWrittenTooEarly,  // shared memory is used again before the multiplies are done
  kRegistersReused,
  kAddedToNothing,  // to sums that hold no numbers yet
  kAddsInOneLane,
};

struct Product {
  std::vector<float> w = std::vector<float>(kOutputs * kInputs);
  std::vector<uint16_t> x = std::vector<uint16_t>(kTokens * kInputs);
  std::vector<float> out = std::vector<float>(kTokens * kOutputs);

  Product() {
    std::mt19937 random(3);
    const auto draw = [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8); };
    for (float& element : w) element = draw();
    for (uint16_t& element : x) element = BFloat16FromFloat(draw());
    for (int t = 0; t < kTokens; ++t) {
      for (int n = 0; n < kOutputs; ++n) {
        for (int k = 0; k < kInputs; ++k) {
          out[t * kOutputs + n] += w[n * kInputs + k] * FloatFromBFloat16(x[t * kInputs + k]);
        }
      }
    }
  }
};

// Whether a multiply adds to the sums before: all but a unit's first do.
bool Adds(Mistake mistake, bool is_first) {
  if (mistake == Mistake::kAddsInOneLane && Thread() == 5) return true;
  return !is_first || mistake == Mistake::kAddedToNothing;
}

// A unit of 64 outputs by 64 inputs with 16 tokens, as the kernel's blocks multiply it.
void Kernel(const Product& in, Mistake mistake, std::vector<float>& out) {
  char* const shared = SharedMemory<char>();
  const int warp = Thread() / kWarpSize, lane = Thread() % kWarpSize;
  for (int i = Thread(); i < kTokens * 8; i += kThreads) {
    const int token = i / 8, piece = i % 8;
    const int place = mistake == Mistake::kPlainRows ? piece : SwizzledPiece(token, piece);
    CopyAsync(shared + token * 128 + place * 16, &in.x[token * kInputs + piece * 8], true);
  }
  CommitCopies();
  WaitForCopies<0>();
  if (mistake != Mistake::kNotShown) ShowToMultiplies();
  Barrier();
  uint32_t a[4][4];
  for (int step = 0; step < 4; ++step) {
    for (int i = 0; i < 4; ++i) {
      const TileElement at = ElementOfA(lane, 2 * i);
      const float* const pair = &in.w[(warp * 16 + at.row) * kInputs + step * 16 + at.col];
      a[step][i] = PackBFloat16(pair[0], pair[1]);
    }
  }
  float sums[kTokens / 8][4];
  for (auto& column : sums) std::fill_n(column, 4, std::nanf(""));
  uint64_t tokens = DescriptorOf(SharedAddress(shared));
  BeginMultiplies();
  for (auto& fragment : a) {
    MultiplyShared(fragment, tokens, sums, Adds(mistake, &fragment == a));
    tokens = mistake == Mistake::kNextRowGroup ? tokens + (kSwizzleBytes >> 4) / 4
                                               : ColumnsFrom(tokens, 1);
  }
  CommitMultiplies();
  if (mistake == Mistake::kWrittenTooEarly && Thread() == 0) shared[0] = 1;
  if (mistake == Mistake::kRegistersReused) a[2][1] = 0;
  if (mistake != Mistake::kNoWait) WaitForMultiplies<0>();
  for (int column = 0; column < kTokens / 8; ++column) {
    for (int i = 0; i < 4; ++i) {
      const TileElement at = ElementOfC(lane, i);
      out[(column * 8 + at.col) * kOutputs + warp * 16 + at.row] = sums[column][i];
    }
  }
}

std::vector<float> Multiplied(const Product& in, Mistake mistake = Mistake::kNone) {
  std::vector<float> out(kTokens * kOutputs);
  RunGrid(
      {.blocks = 1, .threads = kThreads, .shared_bytes = 3 * kSwizzleBytes},
      [&] { Kernel(in, mistake, out); }, Order::kDescending);
  return out;
}

TEST(HostMultiplies, AreProducts) {
  const Product in;
  EXPECT_EQ(Multiplied(in), in.out);
}

// Twice as many inputs, in the same places: four codes of a row of A in a register, next to each other
// in K, as the PTX ISA has them for 8-bit types ("Register Fragments for wgmma.mma_async.m64nNk32").
TEST(HostMultiplies, AreProductsOfFp8Numbers) {
  constexpr int kCodes = 2 * kInputs;
  std::mt19937 random(4);
  std::vector<uint8_t> w(kOutputs * kCodes), x(kTokens * kCodes);
  for (auto* const codes : {&w, &x}) {
    // Of magnitudes around one, whose sums are exact in any order.
    for (uint8_t& code : *codes)
      code = static_cast<uint8_t>(random() % 2 * 0x80 + 0x30 + random() % 16);
  }
  std::vector<float> out(kTokens * kOutputs), expected(out.size());
  for (int t = 0; t < kTokens; ++t) {
    for (int n = 0; n < kOutputs; ++n) {
      for (int k = 0; k < kCodes; ++k) {
        expected[t * kOutputs + n] +=
            FloatFromFp8(w[n * kCodes + k]) * FloatFromFp8(x[t * kCodes + k]);
      }
    }
  }
  const auto kernel = [&] {
    char* const shared = SharedMemory<char>();
    const int warp = Thread() / kWarpSize, lane = Thread() % kWarpSize;
    for (int i = Thread(); i < kTokens * 8; i += kThreads) {
      const int token = i / 8, piece = i % 8;
      CopyAsync(shared + token * 128 + SwizzledPiece(token, piece) * 16,
                &x[token * kCodes + piece * 16], true);
    }
    CommitCopies();
    WaitForCopies<0>();
    ShowToMultiplies();
    Barrier();
    uint32_t a[4][4];
    for (int step = 0; step < 4; ++step) {
      for (int i = 0; i < 4; ++i) {
        const int row = warp * 16 + lane / 4 + i % 2 * 8;
        const int col = step * 32 + lane % 4 * 4 + i / 2 * 16;
        std::memcpy(&a[step][i], &w[row * kCodes + col], 4);
      }
    }
    float sums[kTokens / 8][4] = {};
    const uint64_t tokens = DescriptorOf(SharedAddress(shared));
    BeginMultiplies();
    for (int step = 0; step < 4; ++step) {
      MultiplySharedFp8(a[step], ColumnsFrom(tokens, step), sums, true);
    }
    CommitMultiplies();
    WaitForMultiplies<0>();
    for (int column = 0; column < kTokens / 8; ++column) {
      for (int i = 0; i < 4; ++i) {
        const TileElement at = ElementOfC(lane, i);
        out[(column * 8 + at.col) * kOutputs + warp * 16 + at.row] = sums[column][i];
      }
    }
  };
  RunGrid({.blocks = 1, .threads = kThreads, .shared_bytes = 3 * kSwizzleBytes}, kernel,
          Order::kDescending);
  EXPECT_EQ(out, expected);
}

TEST(HostMultiplies, WrongLayoutsGiveWrongProducts) {
  const Product in;
  EXPECT_NE(Multiplied(in, Mistake::kPlainRows), in.out);
  EXPECT_NE(Multiplied(in, Mistake::kNextRowGroup), in.out);
}

TEST(HostMultiplies, SumsAreNotThereUntilTheyAreWaitedFor) {
  const Product in;
  for (const float sum : Multiplied(in, Mistake::kNoWait)) EXPECT_TRUE(std::isnan(sum));
}

TEST(HostMultiplies, TheFirstWritesOverWhatWasThere) {
  const Product in;
  for (const float sum : Multiplied(in, Mistake::kAddedToNothing)) EXPECT_TRUE(std::isnan(sum));
}

TEST(HostMultipliesDeathTest, WhatIsReadMustBeLeftAlone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Product in;
  EXPECT_DEATH(Multiplied(in, Mistake::kNotShown), "were not shown");
  EXPECT_DEATH(Multiplied(in, Mistake::kWrittenTooEarly), "was changed before it was waited for");
  EXPECT_DEATH(Multiplied(in, Mistake::kRegistersReused), "registers of a multiply were changed");
  EXPECT_DEATH(Multiplied(in, Mistake::kAddsInOneLane), "lanes of a warp ask for different");
}

TEST(SharedDescriptor, HasTheFieldsOfThePtxIsa) {
  const uint64_t descriptor = DescriptorOf(0x2400);
  EXPECT_EQ(descriptor & 0x3fff, 0x240u);
  EXPECT_EQ(descriptor >> 32 & 0x3fff, 1024u >> 4);  // from eight rows to the next
  EXPECT_EQ(descriptor >> 49 & 7, 0u);               // begins where the swizzle does
  EXPECT_EQ(descriptor >> 62, 1u);                   // 128-byte swizzle
}

TEST(SharedDescriptor, FindsEveryElementWhereLoadsPutIt) {
  for (int row = 0; row < 64; ++row) {
    for (int col = 0; col < 64; ++col) {
      const uint64_t descriptor = ColumnsFrom(DescriptorOf(4096), col / 16);
      EXPECT_EQ(DescribedAddress(descriptor, row, col % 16),
                4096u + row * 128 + SwizzledPiece(row, col / 8) * 16 + col % 8 * 2);
    }
  }
}

}  // namespace
}  // namespace sluice::cuda::on_host
