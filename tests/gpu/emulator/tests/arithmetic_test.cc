// What single instructions compute, by the PTX ISA.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/tests/run_ptx.h"

namespace sluice::cuda::emulator {
namespace {

using testing::RunPtx;

// What `instruction` leaves in %r10, of 0xfedcba98 in %r11, 7 in %r12 and -3 in %r13.
uint32_t Word(const std::string& instruction) {
  std::vector<uint32_t> data(1);
  const absl::Status status =
      RunPtx(absl::StrCat("mov.u32 %r11, 0xfedcba98; mov.u32 %r12, 7; mov.u32 %r13, -3;\n",
                          instruction, "\nst.global.u32 [%rd1], %r10;"),
             data);
  EXPECT_TRUE(status.ok()) << instruction << ": " << status;
  return data[0];
}

// What it leaves in %f10, of 1.5 in %f11, NaN in %f12, 2^-24 in %f13 and 2^-130 in %f14.
float Number(const std::string& instruction) {
  const std::string all = absl::StrCat(
      "mov.f32 %f11, 0f3FC00000; mov.f32 %f12, 0f7FC00000; mov.f32 %f13, 0f33800000;\n",
      "mov.f32 %f14, 0f00080000;\n", instruction, "\nmov.b32 %r10, %f10;");
  return std::bit_cast<float>(Word(all));
}

TEST(Arithmetic, IntegersWrapAround) {
  EXPECT_EQ(Word("add.s32 %r10, %r11, %r11;"), 0xfdb97530u);
  EXPECT_EQ(Word("mul.lo.s32 %r10, %r11, %r12;"), 0xfedcba98u * 7);
  EXPECT_EQ(Word("mul.hi.s32 %r10, %r13, %r12;"), 0xffffffffu);
  EXPECT_EQ(Word("mad.lo.s32 %r10, %r12, %r13, %r12;"), static_cast<uint32_t>(-14));
  EXPECT_EQ(Word("div.s32 %r10, %r13, 2;"), 0xffffffffu);
  EXPECT_EQ(Word("rem.s32 %r10, %r13, 2;"), 0xffffffffu);
  EXPECT_EQ(Word("mul.wide.s32 %rd2, %r13, %r12; cvt.u32.u64 %r10, %rd2;"),
            static_cast<uint32_t>(-21));
  EXPECT_EQ(Word("min.s32 %r10, %r13, %r12;"), static_cast<uint32_t>(-3));
  EXPECT_EQ(Word("min.u32 %r10, %r13, %r12;"), 7u);
}

TEST(Arithmetic, BitsAreShiftedInsertedAndPermuted) {
  EXPECT_EQ(Word("shl.b32 %r10, %r12, 40;"), 0u);
  EXPECT_EQ(Word("shr.s32 %r10, %r13, 40;"), 0xffffffffu);
  EXPECT_EQ(Word("shr.u32 %r10, %r13, 28;"), 0xfu);
  EXPECT_EQ(Word("bfi.b32 %r10, %r12, %r11, 4, 8;"), 0xfedcb078u);
  EXPECT_EQ(Word("prmt.b32 %r10, %r11, %r12, 0x4501;"), 0x070098bau);
  EXPECT_EQ(Word("prmt.b32 %r10, %r11, %r12, 0x888B;"), 0xffffffffu);
  EXPECT_EQ(Word("popc.b32 %r10, %r12;"), 3u);
  EXPECT_EQ(Word("mov.b32 {%rs1, %rs2}, %r11; mov.b32 %r10, {%rs2, %rs1};"), 0xba98fedcu);
}

TEST(Arithmetic, PredicatesKnowNan) {
  const auto holds = [](const std::string& comparison) {
    return Number(absl::StrCat("setp.", comparison, ".f32 %p1, %f11, %f12; selp.f32 %f10, ",
                               "0f3F800000, 0f00000000, %p1;")) == 1.0f;
  };
  for (const char* const ordered : {"eq", "ne", "lt", "le", "gt", "ge", "num"}) {
    EXPECT_FALSE(holds(ordered)) << ordered;
  }
  for (const char* const unordered : {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"}) {
    EXPECT_TRUE(holds(unordered)) << unordered;
  }
}

TEST(Arithmetic, NumbersAreRoundedAsTheirInstructionsSay) {
  EXPECT_EQ(Number("fma.rn.f32 %f10, %f11, %f11, %f13;"), 2.25f);
  EXPECT_EQ(Number("mov.f32 %f15, 0fB3800000; fma.rm.f32 %f10, %f11, %f11, %f15;"),
            std::nextafter(2.25f, 0.0f));
  EXPECT_EQ(Number("max.f32 %f10, %f11, %f12;"), 1.5f);  // not NaN
  EXPECT_EQ(Number("mov.f32 %f15, 0fB3800000; copysign.f32 %f10, %f15, %f11;"), -1.5f);
  EXPECT_EQ(Number("cvt.sat.f32.f32 %f10, %f12;"), 0.0f);
  EXPECT_EQ(Number("cvt.rzi.f32.f32 %f10, %f11;"), 1.0f);
  EXPECT_EQ(Number("ex2.approx.f32 %f10, %f11;"), std::exp2(1.5f));
  EXPECT_EQ(Number("rcp.approx.ftz.f32 %f10, %f14;"), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isfinite(Number("rcp.rn.f32 %f10, %f11;")));
}

TEST(Arithmetic, ConversionsSaturateAndExtend) {
  EXPECT_EQ(Word("cvt.s64.s32 %rd2, %r13; shr.s64 %rd2, %rd2, 32; cvt.u32.u64 %r10, %rd2;"),
            0xffffffffu);
  EXPECT_EQ(Word("cvt.u64.u32 %rd2, %r13; shr.s64 %rd2, %rd2, 32; cvt.u32.u64 %r10, %rd2;"), 0u);
  EXPECT_EQ(Word("mov.f32 %f1, 0fCF800000; cvt.rzi.s32.f32 %r10, %f1;"), 0x80000000u);
  EXPECT_EQ(Number("cvt.rn.f32.s32 %f10, %r13;"), -3.0f);
}

// Ties go to even, and pairs have the second operand above the first.
TEST(Arithmetic, PairsOfBFloat16) {
  EXPECT_EQ(Word("mov.b32 %f1, 0x3f808000; mov.b32 %f2, 0x40018000;\n"
                 "cvt.rn.bf16x2.f32 %r10, %f2, %f1;"),
            0x40023f80u);
  // (1 + 2^-7) * (1 + 2^-7) - 1 = 2^-6 + 2^-14, halfway between two; 2 * 3 + 1 = 7.
  EXPECT_EQ(Word("mov.b32 %r3, 0x40003f81; mov.b32 %r4, 0x40403f81; mov.b32 %r5, 0x3f80bf80;\n"
                 "fma.rn.bf16x2 %r10, %r3, %r4, %r5;"),
            0x40e03c80u);
}

TEST(Arithmetic, FunctionsReturnTheirResults) {
  std::vector<uint32_t> data(2);
  const testing::PtxLaunch launch{.body = R"(
  mov.u32 %r3, 5;
  {
  .param .b32 param0;
  st.param.b32 [param0+0], %r3;
  .param .b32 param1;
  st.param.b32 [param1+0], 37;
  .param .b32 retval0;
  call.uni (retval0), sum, (param0, param1);
  ld.param.b32 %r4, [retval0+0];
  }
  st.global.v2.u32 [%rd1], {%r3, %r4};
)",
                                  .functions = R"(
.func (.param .b32 func_retval0) sum(.param .b32 sum_param_0, .param .b32 sum_param_1)
{
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [sum_param_0];
  ld.param.b32 %r3, [sum_param_1];
  add.s32 %r3, %r1, %r3;
  st.param.b32 [func_retval0+0], %r3;
  ret;
}
)"};
  const absl::Status status = RunPtx({launch}, data);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(data[0], 5u);
  EXPECT_EQ(data[1], 42u);
}

}  // namespace
}  // namespace sluice::cuda::emulator
