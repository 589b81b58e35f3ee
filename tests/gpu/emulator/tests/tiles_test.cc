// Tiles that warps and warpgroups multiply, against plain loops, and what multiplies that go on by
// themselves forbid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"
#include "kernels/fp8.h"
#include "tests/gpu/emulator/tests/run_ptx.h"

namespace sluice::cuda::emulator {
namespace {

using ::testing::HasSubstr;
using testing::Registers;
using testing::RunPtx;

std::string TilesMessage(const absl::Status& status) { return std::string(status.message()); }

// Small whole numbers: sums of their products are exact.
std::vector<float> Draw(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return numbers;
}

// C[m, n] = A[m, k] B[n, k]^T.
std::vector<float> Product(const std::vector<float>& a, const std::vector<float>& b, int m, int n,
                           int k) {
  std::vector<float> c(m * n);
  for (int i = 0; i < m * n * k; ++i) {
    c[i / k] += a[i / (n * k) * k + i % k] * b[i / k % n * k + i % k];
  }
  return c;
}

uint32_t Pair(float low, float high) {
  return uint32_t{BFloat16FromFloat(high)} << 16 | BFloat16FromFloat(low);
}

// Which words of a row-major [16, K] matrix of pairs (or fours) a lane has in its register `part`.
int WordOfA(int lane, int part, int words_of_row) {
  return (lane / 4 + 8 * (part % 2)) * words_of_row + lane % 4 + 4 * (part / 2);
}

TEST(Tiles, AWarpsMultiplyHasItsNumbersWhereTheyAreDocumented) {
  const std::vector<float> a = Draw(16 * 16, 1), b = Draw(8 * 16, 2);
  std::vector<uint32_t> data(32 * 6 + 32 * 4);  // a and b by lane; then the sums
  for (int lane = 0; lane < 32; ++lane) {
    for (int part = 0; part < 4; ++part) {
      const int word = WordOfA(lane, part, 8);
      data[6 * lane + part] = Pair(a[2 * word], a[2 * word + 1]);
    }
    for (int part = 0; part < 2; ++part) {
      const int word = lane / 4 * 8 + lane % 4 + 4 * part;
      data[6 * lane + 4 + part] = Pair(b[2 * word], b[2 * word + 1]);
    }
  }
  const absl::Status status = RunPtx(R"(
  mul.wide.u32 %rd2, %r1, 24;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.v2.u32 {%r10, %r11}, [%rd3];
  ld.global.v2.u32 {%r12, %r13}, [%rd3+8];
  ld.global.v2.u32 {%r14, %r15}, [%rd3+16];
  mov.f32 %f1, 0f3F800000;
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f10, %f11, %f12, %f13}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%f1, %f1, %f1, %f1};
  mul.wide.u32 %rd2, %r1, 16;
  add.s64 %rd3, %rd1, %rd2;
  st.global.f32 [%rd3+768], %f10;
  st.global.f32 [%rd3+772], %f11;
  st.global.f32 [%rd3+776], %f12;
  st.global.f32 [%rd3+780], %f13;
)",
                                     data);
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<float> c = Product(a, b, 16, 8, 16);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
      EXPECT_EQ(std::bit_cast<float>(data[192 + 4 * lane + i]), c[row * 8 + column] + 1) << lane;
    }
  }
}

TEST(Tiles, MatricesAreLoadedAsTheyAreOrTurned) {
  for (const bool turned : {false, true}) {
    std::vector<uint32_t> data(128 + 128);
    for (uint32_t i = 0; i < 128; ++i) data[i] = (2 * i + 1) << 16 | (2 * i);
    const absl::Status status =
        RunPtx(absl::StrCat(R"(
  mul.wide.u32 %rd2, %r1, 16;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd3];
  mov.u32 %r4, s;
  mul.lo.s32 %r3, %r1, 16;
  add.s32 %r4, %r4, %r3;
  st.shared.v4.u32 [%r4], {%r10, %r11, %r12, %r13};
  bar.warp.sync -1;
  ldmatrix.sync.aligned.m8n8.x4)",
                            turned ? ".trans" : "", R"(.shared.b16 {%r10, %r11, %r12, %r13}, [%r4];
  st.global.v4.u32 [%rd3+512], {%r10, %r11, %r12, %r13};
)"),
               data);
    ASSERT_TRUE(status.ok()) << status;
    for (uint32_t i = 0; i < 128; ++i) {
      const uint32_t lane = i / 4, matrix = i % 4, row = lane / 4, column = 2 * (lane % 4);
      const uint32_t low = turned ? column * 8 + row : row * 8 + column;
      const uint32_t high = turned ? low + 8 : low + 1;
      EXPECT_EQ(data[128 + i], (64 * matrix + high) << 16 | (64 * matrix + low)) << i;
    }
  }
}

// ---- Warpgroups ----

// A multiply of 64 outputs by 16 columns, whose B lies in rows of 128 bytes, swizzled, or of 16, not.
struct WarpgroupCase {
  bool fp8 = false;
  bool swizzled = true;
  // What is put between, or left out.
  std::string before_fence = "";
  std::string fence = "wgmma.fence.sync.aligned;\n";
  std::string show = "fence.proxy.async.shared::cta;\n";
  std::string while_multiplied = "";
  std::string wait = "wgmma.wait_group.sync.aligned 0;\n";
};

constexpr int kRows = 64, kColumns = 16, kThreads = 128;
constexpr int kTileBytes = 16 * 128;  // of B: K has its first 32 bytes of each row

// In the words of the figures of the PTX ISA, and not as the emulator has it.
int PlaceOfB(const WarpgroupCase& how, int column, int byte) {
  if (!how.swizzled) return column / 8 * 256 + byte / 16 * 128 + column % 8 * 16 + byte % 16;
  const int chunk = byte / 16 ^ column % 8;
  return column * 128 + chunk * 16 + byte % 16;
}

// Every thread has 4 registers of A at data[4 * thread], and shows 16 bytes of B behind them.
std::string Multiply(const WarpgroupCase& how) {
  // Start, leading and stride in 16 bytes; bit 62: a swizzle of 128 bytes.
  const uint64_t descriptor = how.swizzled
                                  ? uint64_t{1} << 62 | uint64_t{64} << 32 | uint64_t{1} << 16
                                  : uint64_t{16} << 32 | uint64_t{8} << 16;
  return absl::StrCat(R"(
  mul.wide.u32 %rd2, %r1, 16;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd3];
  ld.global.v4.u32 {%r14, %r15, %r16, %r17}, [%rd3+2048];
  mov.u32 %r4, s;
  mul.lo.s32 %r3, %r1, 16;
  add.s32 %r3, %r4, %r3;
  st.shared.v4.u32 [%r3], {%r14, %r15, %r16, %r17};
)",
                      how.show, "bar.sync 0;\n", how.fence, how.before_fence, R"(
  shr.u32 %r5, %r4, 4;
  cvt.u64.u32 %rd4, %r5;
  or.b64 %rd4, %rd4, )",
                      descriptor, R"(;
  { .reg .pred adds; setp.ne.b32 adds, %r4, %r4; wgmma.mma_async.sync.aligned.m64n16)",
                      how.fp8 ? "k32.f32.e4m3.e4m3 " : "k16.f32.bf16.bf16 ", Registers("%f", 10, 8),
                      ", {%r10, %r11, %r12, %r13}, %rd4, adds, 1, 1", how.fp8 ? "" : ", 0", "; }\n",
                      "wgmma.commit_group.sync.aligned;\n", how.while_multiplied, how.wait, R"(
  mul.wide.u32 %rd2, %r1, 32;
  add.s64 %rd3, %rd1, %rd2;
)",
                      [] {
                        std::string stores;
                        for (int i = 0; i < 8; ++i) {
                          absl::StrAppend(&stores, "st.global.f32 [%rd3+", 4096 + 4 * i, "], %f",
                                          10 + i, ";\n");
                        }
                        return stores;
                      }());
}

absl::Status RunMultiply(const WarpgroupCase& how, std::vector<float>& sums,
                         std::vector<float>& expected) {
  const int k = how.fp8 ? 32 : 16, numbers = how.fp8 ? 4 : 2;  // of a register
  const std::vector<float> a = Draw(kRows * k, 3), b = Draw(kColumns * k, 4);
  expected = Product(a, b, kRows, kColumns, k);
  std::vector<uint32_t> data(512 + kTileBytes / 4 + kRows * kColumns);
  const auto pack = [&](const float* from) {
    if (!how.fp8) return Pair(from[0], from[1]);
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word |= uint32_t{Fp8FromFloat(from[i])} << (8 * i);
    return word;
  };
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int part = 0; part < 4; ++part) {
      const int word = WordOfA(thread % 32, part, 8) + thread / 32 * 16 * 8;
      data[4 * thread + part] = pack(&a[word * numbers]);
    }
  }
  for (int column = 0; column < kColumns; ++column) {
    for (int word = 0; word < 8; ++word) {
      data[512 + PlaceOfB(how, column, 4 * word) / 4] = pack(&b[column * k + word * numbers]);
    }
  }
  const absl::Status status = RunPtx(Multiply(how), data, {.threads = kThreads});
  sums.assign(kRows * kColumns, 0);
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int i = 0; i < 8; ++i) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2);
      const int column = 8 * (i / 4) + 2 * (thread % 4) + i % 2;
      sums[row * kColumns + column] = std::bit_cast<float>(data[1024 + 8 * thread + i]);
    }
  }
  return status;
}

TEST(Warpgroups, MultiplyWhatTheDescriptorSays) {
  for (const bool fp8 : {false, true}) {
    for (const bool swizzled : {true, false}) {
      std::vector<float> sums, expected;
      const absl::Status status = RunMultiply({.fp8 = fp8, .swizzled = swizzled}, sums, expected);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(sums, expected) << fp8 << swizzled;
    }
  }
}

std::string WhatIsSaid(const WarpgroupCase& wrong) {
  std::vector<float> sums, expected;
  return TilesMessage(RunMultiply(wrong, sums, expected));
}

TEST(Warpgroups, WhatMultipliesForbidIsNoticed) {
  EXPECT_THAT(WhatIsSaid({.show = ""}), HasSubstr("has not shown it to the asynchronous proxy"));
  EXPECT_THAT(WhatIsSaid({.fence = ""}), HasSubstr("no wgmma.fence is behind that"));
  EXPECT_THAT(WhatIsSaid({.before_fence = "add.s32 %r11, %r11, 1;\n"}),
              HasSubstr("no wgmma.fence is behind that"));
  EXPECT_THAT(WhatIsSaid({.while_multiplied = "add.f32 %f1, %f12, %f12;\n"}),
              HasSubstr("a register that a multiply under way has"));
  EXPECT_THAT(WhatIsSaid({.while_multiplied = "mov.u32 %r11, 0;\n"}),
              HasSubstr("a register that a multiply under way has"));
  EXPECT_THAT(WhatIsSaid({.wait = ""}), HasSubstr("a register that a multiply under way has"));
  EXPECT_THAT(WhatIsSaid({.while_multiplied = "st.shared.u32 [%r3], %r4;\n"}), HasSubstr("race"));
}

// The four warps of a warpgroup go the same way.
TEST(Warpgroups, WarpsThatMultiplyDifferentlyAreNoticed) {
  EXPECT_THAT(WhatIsSaid({.while_multiplied = R"(
  setp.lt.u32 %p5, %r1, 32;
  @%p5 bra $L_another;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f30, %f31, %f32, %f33}, {%r10, %r11, %r12, %r13}, %rd4, 1, 1, 1, 0;
  bra $L_together;
$L_another:
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f30, %f31, %f32, %f33}, {%r10, %r11, %r12, %r13}, %rd4, 1, 1, 1, 0;
$L_together:
)"}),
              HasSubstr("different multiplies"));
}

}  // namespace
}  // namespace sluice::cuda::emulator
