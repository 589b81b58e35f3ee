// Copies that go on by themselves, and barriers that count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/tests/run_ptx.h"

namespace sluice::cuda::emulator {
namespace {

using ::testing::HasSubstr;
using testing::RunPtx;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

std::vector<uint32_t> Numbers(size_t count) {
  std::vector<uint32_t> data(count);
  std::iota(data.begin(), data.end(), 1000u);
  return data;
}

// Each of 32 threads has 16 of the first 512 bytes copied, and leaves the first word of what is there
// after `wait` behind them.
std::string CopySixteen(const std::string& wait) {
  return absl::StrCat(R"(
  mul.lo.s32 %r3, %r1, 16;
  mov.u32 %r4, s;
  add.s32 %r4, %r4, %r3;
  mul.wide.u32 %rd2, %r1, 16;
  add.s64 %rd3, %rd1, %rd2;
  cp.async.cg.shared.global [%r4], [%rd3], 16, 8;
  cp.async.commit_group;
)",
                      wait, R"(
  ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r4];
  st.global.v4.u32 [%rd3+512], {%r5, %r6, %r7, %r8};
)");
}

TEST(SmallCopies, ArriveWhenTheyAreWaitedForAndNotBefore) {
  std::vector<uint32_t> data = Numbers(256);
  ASSERT_TRUE(RunPtx(CopySixteen("cp.async.wait_group 0;\n"), data).ok());
  for (uint32_t i = 0; i < 128; ++i) {
    EXPECT_EQ(data[128 + i], i % 4 < 2 ? 1000 + i : 0u)
        << i;  // eight bytes are read, eight are zero
  }
  ASSERT_TRUE(RunPtx(CopySixteen("cp.async.wait_group 1;\n"), data).ok());
  EXPECT_EQ(data[128], 0xffffffffu);
}

struct BulkCopy {
  uint32_t arrivals = 1;
  uint32_t expected = 512;
  uint32_t copied = 512;
  std::string show = "fence.mbarrier_init.release.cluster;\n";
  std::string wait = R"(
$L_wait:
  { .reg .pred over; mbarrier.try_wait.parity.shared::cta.b64 over, [%r3], 0; selp.u32 %r6, 1, 0, over; }
  setp.eq.s32 %p2, %r6, 0;
  @%p2 bra $L_wait;
)";
};

// One thread has 512 bytes copied, 2,048 bytes into shared memory; all wait, and leave them behind.
std::string CopyInBulk(const BulkCopy& copy) {
  return absl::StrCat(R"(
  mov.u32 %r3, s;
  setp.ne.s32 %p1, %r1, 0;
  @%p1 bra $L_set_up;
  mbarrier.init.shared::cta.b64 [%r3], )",
                      copy.arrivals, ";\n", copy.show, R"($L_set_up:
  bar.sync 0;
  @%p1 bra $L_wait;
  mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r3], )",
                      copy.expected, R"(;
  add.s32 %r4, %r3, 2048;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], )",
                      copy.copied, ", [%r3];\n", copy.wait, R"(
  mul.wide.u32 %rd2, %r1, 16;
  add.s64 %rd3, %rd1, %rd2;
  mul.lo.s32 %r7, %r1, 16;
  add.s32 %r8, %r3, %r7;
  ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r8+2048];
  st.global.v4.u32 [%rd3+512], {%r10, %r11, %r12, %r13};
)");
}

TEST(BulkCopies, CompleteOnTheirBarrier) {
  std::vector<uint32_t> data = Numbers(256);
  const absl::Status status = RunPtx(CopyInBulk({}), data);
  ASSERT_TRUE(status.ok()) << status;
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(data[128 + i], 1000 + i);
}

TEST(BulkCopies, WrongCountsLeaveAllWaiting) {
  for (const BulkCopy& wrong :
       {BulkCopy{.arrivals = 2}, BulkCopy{.expected = 528}, BulkCopy{.copied = 256}}) {
    std::vector<uint32_t> data = Numbers(256);
    EXPECT_THAT(Text(RunPtx(CopyInBulk(wrong), data)), HasSubstr("all threads wait"));
  }
}

TEST(BulkCopies, ABlockThatDoesNotWaitEndsTooEarly) {
  std::vector<uint32_t> data = Numbers(256);
  EXPECT_THAT(Text(RunPtx(CopyInBulk({.wait = "$L_wait:\nbar.sync 0;\n"}), data)),
              HasSubstr("a copy arrives at a block that has ended"));
}

// Two in turn to one place, where the first has been read and nobody said so.
TEST(BulkCopies, WhatIsOverwrittenWhileItIsReadIsARace) {
  std::vector<uint32_t> data = Numbers(256);
  const std::string again = absl::StrCat(BulkCopy().wait, R"(
  ld.shared.u32 %r14, [%r3+2048];
  @%p1 bra $L_once_more;
  mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r3], 512;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 512, [%r3];
$L_once_more:
  { .reg .pred over; mbarrier.try_wait.parity.shared::cta.b64 over, [%r3], 1; selp.u32 %r6, 1, 0, over; }
)");
  EXPECT_THAT(Text(RunPtx(CopyInBulk({.wait = again}), data)), HasSubstr("race"));
}

TEST(BulkCopies, CompleteOnBarriersThatWereShown) {
  std::vector<uint32_t> data = Numbers(256);
  EXPECT_THAT(Text(RunPtx(CopyInBulk({.show = ""}), data)), HasSubstr("set up and not shown"));
}

TEST(BulkCopies, AreOfWholeSixteenBytes) {
  std::vector<uint32_t> data = Numbers(256);
  EXPECT_THAT(Text(RunPtx(CopyInBulk({.expected = 8, .copied = 8}), data)),
              HasSubstr("whole sixteen bytes"));
}

// Two blocks, each of which has half of the bytes copied to both.
std::string CopyToBoth(const std::string& end) {
  return absl::StrCat(R"(
  mov.u32 %r3, s;
  mov.u32 %r20, %cluster_ctarank;
  setp.ne.s32 %p1, %r1, 0;
  @%p1 bra $L_set_up;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  mbarrier.init.shared::cta.b64 [%r3+8], 1;
  fence.mbarrier_init.release.cluster;
$L_set_up:
  barrier.cluster.arrive.release;
  barrier.cluster.wait.acquire;
  @%p1 bra $L_wait;
  mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r3], 512;
  mul.lo.s32 %r21, %r20, 256;
  add.s32 %r4, %r3, %r21;
  mul.wide.u32 %rd2, %r20, 256;
  add.s64 %rd3, %rd1, %rd2;
  mov.u16 %rs1, 3;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r4+1024], [%rd3], 256, [%r3], %rs1;
$L_wait:
  { .reg .pred over; mbarrier.try_wait.parity.shared::cta.b64 over, [%r3], 0; selp.u32 %r6, 1, 0, over; }
  setp.eq.s32 %p2, %r6, 0;
  @%p2 bra $L_wait;
  mul.lo.s32 %r7, %r1, 16;
  add.s32 %r8, %r3, %r7;
  ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r8+1024];
  mul.wide.u32 %rd4, %r2, 512;
  add.s64 %rd4, %rd1, %rd4;
  mul.wide.u32 %rd5, %r1, 16;
  add.s64 %rd4, %rd4, %rd5;
  st.global.v4.u32 [%rd4+512], {%r10, %r11, %r12, %r13};
)",
                      end);
}

TEST(BulkCopies, ReachAllBlocksOfACluster) {
  std::vector<uint32_t> data = Numbers(384);
  const absl::Status status = RunPtx(CopyToBoth(""), data, {.blocks = 2, .cluster = 2});
  ASSERT_TRUE(status.ok()) << status;
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(data[128 + i], 1000 + i % 128);
}

// A block must not end while another still says something to it.
TEST(Clusters, ABlockThatHasEndedIsNotReached) {
  constexpr char kTellTheOther[] = R"(
  @%p1 bra $L_end;
  xor.b32 %r22, %r20, 1;
  add.s32 %r23, %r3, 8;
  { .reg .b32 there; mapa.shared::cluster.u32 there, %r23, %r22; mbarrier.arrive.shared::cluster.b64 _, [there]; }
$L_end:
)";
  std::vector<uint32_t> data = Numbers(384);
  EXPECT_THAT(Text(RunPtx(CopyToBoth(kTellTheOther), data, {.blocks = 2, .cluster = 2})),
              HasSubstr("a block that has ended"));
  const std::string and_wait = absl::StrCat(
      kTellTheOther, "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n");
  const absl::Status status = RunPtx(CopyToBoth(and_wait), data, {.blocks = 2, .cluster = 2});
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace sluice::cuda::emulator
