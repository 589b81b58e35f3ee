// Reading PTX.
#include "tests/gpu/emulator/ptx/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/tests/run_ptx.h"

namespace sluice::cuda::emulator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHead[] = ".version 9.0\n.target sm_90a\n.address_size 64\n";

TEST(ParsePtx, KernelsHaveTheirParametersAsBytes) {
  const auto module = ParsePtx(
      absl::StrCat(kHead, ".visible .entry a(.param .u32 a_0, .param .align 8 .b8 a_1[20])\n",
                   ".maxntid 256, 1, 1\n.minnctapersm 2\n{\n  .reg .b32 %r<3>;\n",
                   "  ld.param.u32 %r1, [a_1+4];\n  ret;\n}\n"));
  ASSERT_TRUE(module.ok()) << module.status();
  const Function& kernel = module->functions.at("a");
  EXPECT_EQ(kernel.parameter_bytes, 28u);
  EXPECT_EQ(kernel.max_threads, 256);
  ASSERT_EQ(kernel.instructions.size(), 2u);
  EXPECT_THAT(kernel.instructions[0].parts, ElementsAre("ld", "param", "u32"));
  EXPECT_THAT(kernel.instructions[0].offsets, ElementsAre(0, 4));
}

TEST(ParsePtx, OperandsOfSeveralRegistersKeepTheirSizes) {
  const auto module =
      ParsePtx(absl::StrCat(kHead, ".entry a()\n{\n  .reg .b32 %r<9>;\n  .reg .b64 %rd<2>;\n",
                            "  st.global.v2.u32 [%rd1+-8], {%r1, %r2};\n}\n"));
  ASSERT_TRUE(module.ok()) << module.status();
  const Instruction& store = module->functions.at("a").instructions[0];
  EXPECT_THAT(store.operand_sizes, ElementsAre(1, 2));
  EXPECT_EQ(store.offsets[0], -8);
  EXPECT_EQ(store.registers.size(), 3u);
}

// What inline assembly declares is its own, whatever else is called so.
TEST(ParsePtx, NamesBelongToTheirBraces) {
  const auto module = ParsePtx(
      absl::StrCat(kHead, ".entry a()\n{\n  .reg .b32 %r<3>;\n",
                   "  { .reg .pred over; setp.ne.b32 over, %r1, 0; selp.u32 %r2, 1, 0, over; }\n",
                   "  { .reg .pred over; setp.ne.b32 over, %r2, 0; }\n}\n"));
  ASSERT_TRUE(module.ok()) << module.status();
  const auto& instructions = module->functions.at("a").instructions;
  EXPECT_EQ(instructions[0].registers[0], instructions[1].registers[3]);
  EXPECT_NE(instructions[0].registers[0], instructions[2].registers[0]);
}

TEST(ParsePtx, BranchesGoToTheirLabels) {
  const auto module = ParsePtx(
      absl::StrCat(kHead, ".entry a()\n{\n  .reg .pred %p<2>;\n$L_top:\n  @!%p1 bra $L_end;\n",
                   "  bra.uni $L_top;\n$L_end:\n  ret;\n}\n"));
  ASSERT_TRUE(module.ok()) << module.status();
  const auto& instructions = module->functions.at("a").instructions;
  EXPECT_TRUE(instructions[0].has_guard);
  EXPECT_FALSE(instructions[0].guard_wanted);
  EXPECT_EQ(instructions[0].target, 2);
  EXPECT_EQ(instructions[1].target, 0);
}

TEST(ParsePtx, SaysInWhichLineSomethingIsWrong) {
  for (const std::string wrong : {"  bra $L_nowhere;\n", "  add.s32 %r1, %r1 %r1;\n",
                                  "  add.s32 there, %r1, 1;\n", "  ld.global.u32 %r1, [%rd1;\n"}) {
    const auto module = ParsePtx(absl::StrCat(
        kHead, ".entry a()\n{\n  .reg .b32 %r<3>;\n  .reg .b64 %rd<3>;\n", wrong, "}\n"));
    EXPECT_EQ(module.status().code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(module.status().message()), HasSubstr("line ")) << wrong;
  }
  EXPECT_FALSE(ParsePtx(".global .u32 a;").ok());
  EXPECT_FALSE(ParsePtx(".entry a(").ok());
}

TEST(Programs, AnInstructionThatIsNotKnownIsNamed) {
  std::vector<uint32_t> data(1);
  const absl::Status status = testing::RunPtx("  tanh.approx.f32 %f1, %f2;", data);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tanh.approx.f32"));
}

}  // namespace
}  // namespace sluice::cuda::emulator
