// What accesses cost: turns of shared memory, sectors of global memory.
#include "tests/gpu/emulator/machine/traffic.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/tests/run_ptx.h"

namespace sluice::cuda::emulator {
namespace {

using testing::RunPtx;
using testing::Shape;

// %r4 and %rd3: an element of `stride` bytes for each thread, in shared memory and in the data, from a
// multiple of 256 on.
std::string OwnElement(int stride) {
  return absl::StrCat(R"(
  mul.lo.s32 %r3, %r1, )",
                      stride, R"(;
  mov.u32 %r4, s;
  add.s32 %r4, %r4, %r3;
  mul.wide.u32 %rd2, %r1, )",
                      stride, R"(;
  add.s64 %rd3, %rd1, 255;
  and.b64 %rd3, %rd3, -256;
  add.s64 %rd3, %rd3, %rd2;
)");
}

AccessCost CostOf(const std::string& body, Space space,
                  const Shape& shape = {.shared_bytes = 8192}) {
  Traffic traffic;
  std::vector<uint32_t> data(4096);
  const absl::Status status = RunPtx({{.body = body, .shape = shape, .traffic = &traffic}}, data);
  EXPECT_TRUE(status.ok()) << status;
  AccessCost sum;
  for (const auto& [key, cost] : traffic.costs()) {
    if (key.space == space) sum += cost;
  }
  return sum;
}

void ExpectCost(const AccessCost& cost, int64_t accesses, int64_t turns, int64_t least) {
  EXPECT_EQ(cost.accesses, accesses);
  EXPECT_EQ(cost.turns, turns);
  EXPECT_EQ(cost.least, least);
}

TEST(Traffic, WordsInOneBankTakeTurns) {
  const std::string store = "st.shared.u32 [%r4], %r1;\n";
  ExpectCost(CostOf(OwnElement(4) + store, Space::kShared), 1, 1, 1);
  ExpectCost(CostOf(OwnElement(8) + store, Space::kShared), 1, 2, 1);
  ExpectCost(CostOf(OwnElement(128) + store, Space::kShared), 1, 32, 1);
  ExpectCost(CostOf(OwnElement(132) + store, Space::kShared), 1, 1, 1);
}

TEST(Traffic, AWordThatManyReadIsReadOnce) {
  ExpectCost(CostOf("mov.u32 %r4, s;\nld.shared.u32 %r5, [%r4];\n", Space::kShared), 1, 1, 1);
}

TEST(Traffic, WideAccessesAreServedInParts) {
  const std::string wide = "st.shared.v4.u32 [%r4], {%r1, %r1, %r1, %r1};\n";
  ExpectCost(CostOf(OwnElement(16) + wide, Space::kShared), 1, 4, 4);
  // Eight lanes at a time, whose rows begin in two banks.
  ExpectCost(CostOf(OwnElement(64) + wide, Space::kShared), 1, 16, 4);
  ExpectCost(CostOf(OwnElement(80) + wide, Space::kShared), 1, 4, 4);
}

TEST(Traffic, RowsOfMatricesAreServedEightAtATime) {
  const std::string load =
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%r4];\n";
  ExpectCost(CostOf(OwnElement(16) + load, Space::kShared), 1, 4, 4);
  ExpectCost(CostOf(OwnElement(128) + load, Space::kShared), 1, 32, 4);
  ExpectCost(CostOf(OwnElement(144) + load, Space::kShared), 1, 4, 4);
}

TEST(Traffic, SectorsAreCountedOnce) {
  const std::string store = "st.global.u32 [%rd3], %r1;\n";
  ExpectCost(CostOf(OwnElement(4) + store, Space::kGlobal), 1, 4, 4);
  ExpectCost(CostOf(OwnElement(8) + store, Space::kGlobal), 1, 8, 4);
  ExpectCost(CostOf(OwnElement(64) + store, Space::kGlobal), 1, 32, 4);
}

TEST(Traffic, CopiesReadTheOneAndWriteTheOther) {
  const std::string copy = OwnElement(16) +
                           "cp.async.cg.shared.global [%r4], [%rd3], 16;\n"
                           "cp.async.commit_group;\ncp.async.wait_group 0;\n";
  ExpectCost(CostOf(copy, Space::kShared), 1, 4, 4);
  ExpectCost(CostOf(copy, Space::kGlobal), 1, 16, 16);
}

TEST(Traffic, LanesThatStayAwayCostNothing) {
  const std::string some = OwnElement(128) + R"(
  setp.lt.u32 %p1, %r1, 3;
  @%p1 st.shared.u32 [%r4], %r1;
)";
  ExpectCost(CostOf(some, Space::kShared), 1, 3, 1);
}

TEST(Traffic, LaunchesAreCountedAsTheyAreCarriedOut) {
  Traffic traffic;
  std::vector<uint32_t> data(1);
  const testing::PtxLaunch launch{.body = "st.global.u32 [%rd1], %r1;\n", .traffic = &traffic};
  ASSERT_TRUE(RunPtx({launch, launch}, data).ok());
  EXPECT_EQ(traffic.launches(), 2);
}

TEST(Traffic, EveryTimeAWarpComesToAStepIsAnAccess) {
  const std::string loop = OwnElement(4) + R"(
  mov.u32 %r6, 0;
again:
  st.shared.u32 [%r4], %r1;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p1, %r6, 5;
  @%p1 bra again;
)";
  ExpectCost(CostOf(loop, Space::kShared, {.blocks = 3, .threads = 64}), 3 * 2 * 5, 30, 30);
}

}  // namespace
}  // namespace sluice::cuda::emulator
