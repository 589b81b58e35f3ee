// Threads that meet, and what is noticed where they do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/tests/run_ptx.h"

namespace sluice::cuda::emulator {
namespace {

using ::testing::HasSubstr;
using testing::RunPtx;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

// Each thread leaves its number, and after `between` reads that of thread `other` (in %r3).
std::string Exchange(const std::string& other, const std::string& between) {
  return absl::StrCat(R"(
  shl.b32 %r4, %r1, 2;
  mov.u32 %r5, s;
  add.s32 %r6, %r5, %r4;
  st.shared.u32 [%r6], %r1;
)",
                      other, between, R"(
  shl.b32 %r7, %r3, 2;
  add.s32 %r8, %r5, %r7;
  ld.shared.u32 %r9, [%r8];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r9;
)");
}

TEST(Threads, ABarrierOrdersWhatAllDo) {
  std::vector<uint32_t> data(128);
  const absl::Status status =
      RunPtx(Exchange("xor.b32 %r3, %r1, 100;\n", "bar.sync 0;\n"), data, {.threads = 128});
  ASSERT_TRUE(status.ok()) << status;
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(data[i], i ^ 100);
}

// Whichever of the two happened to come first.
TEST(Threads, AMissingBarrierIsARace) {
  std::vector<uint32_t> data(128);
  for (const char* const other : {"add.s32 %r3, %r1, 1;\nand.b32 %r3, %r3, 127;\n",
                                  "add.s32 %r3, %r1, 127;\nand.b32 %r3, %r3, 127;\n"}) {
    const absl::Status status = RunPtx(Exchange(other, ""), data, {.threads = 128});
    EXPECT_THAT(MessageOf(status), HasSubstr("race")) << other;
  }
}

TEST(Threads, AWarpsBarrierIsEnoughWithinIt) {
  std::vector<uint32_t> data(128);
  EXPECT_TRUE(
      RunPtx(Exchange("xor.b32 %r3, %r1, 3;\n", "bar.warp.sync -1;\n"), data, {.threads = 128})
          .ok());
  EXPECT_THAT(MessageOf(RunPtx(Exchange("xor.b32 %r3, %r1, 32;\n", "bar.warp.sync -1;\n"), data,
                               {.threads = 128})),
              HasSubstr("race"));
}

// Shuffles pass values on, and order nothing in memory.
TEST(Threads, AShuffleIsNoBarrier) {
  std::vector<uint32_t> data(32);
  EXPECT_THAT(MessageOf(RunPtx(Exchange("xor.b32 %r3, %r1, 3;\n",
                                        "shfl.sync.bfly.b32 %r20|%p1, %r1, 1, 31, -1;\n"),
                               data)),
              HasSubstr("race"));
}

TEST(Threads, ShufflesReadOtherLanes) {
  const auto shuffled = [](const std::string& how) {
    std::vector<uint32_t> data(64);
    const absl::Status status = RunPtx(absl::StrCat("shfl.sync.", how, R"(, -1;
  selp.u32 %r4, 1, 0, %p1;
  mul.wide.u32 %rd2, %r1, 8;
  add.s64 %rd3, %rd1, %rd2;
  st.global.v2.u32 [%rd3], {%r3, %r4};
)"),
                                       data);
    EXPECT_TRUE(status.ok()) << status;
    return data;
  };
  const auto butterfly = shuffled("bfly.b32 %r3|%p1, %r1, 5, 31");
  const auto up = shuffled("up.b32 %r3|%p1, %r1, 4, 0");
  const auto one = shuffled("idx.b32 %r3|%p1, %r1, 9, 31");
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(butterfly[2 * i], i ^ 5);
    EXPECT_EQ(up[2 * i], i < 4 ? i : i - 4);
    EXPECT_EQ(up[2 * i + 1], i < 4 ? 0u : 1u);
    EXPECT_EQ(one[2 * i], 9u);
  }
}

TEST(Threads, OneLaneOfAWarpIsElected) {
  std::vector<uint32_t> data(64);
  const absl::Status status = RunPtx(R"(
  { .reg .pred one; elect.sync _|one, 0xffffffff; selp.u32 %r3, 1, 0, one; }
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r3;
)",
                                     data, {.threads = 64});
  ASSERT_TRUE(status.ok()) << status;
  for (int warp = 0; warp < 2; ++warp) {
    EXPECT_EQ(std::count(data.begin() + 32 * warp, data.begin() + 32 * (warp + 1), 1u), 1);
  }
}

TEST(Threads, LanesThatMeetAtDifferentPlacesAreNamed) {
  std::vector<uint32_t> data(1);
  const absl::Status status = RunPtx(R"(
  setp.lt.s32 %p1, %r1, 16;
  @%p1 bra $L_other;
  shfl.sync.bfly.b32 %r3|%p2, %r1, 1, 31, -1;
  bra $L_end;
$L_other:
  shfl.sync.bfly.b32 %r3|%p2, %r1, 1, 31, -1;
$L_end:
)",
                                     data);
  EXPECT_THAT(MessageOf(status), HasSubstr("different instructions"));
}

TEST(Threads, WhoWaitsForeverIsNamed) {
  std::vector<uint32_t> data(1);
  const absl::Status status = RunPtx(R"(
  setp.lt.s32 %p1, %r1, 16;
  @%p1 bra $L_end;
  barrier.sync 1, 32;
$L_end:
)",
                                     data);
  EXPECT_THAT(MessageOf(status), HasSubstr("all threads wait"));
  EXPECT_THAT(MessageOf(status), HasSubstr("barrier.sync"));
}

TEST(Threads, AddressesAreChecked) {
  std::vector<uint32_t> data(4);
  EXPECT_THAT(MessageOf(RunPtx("ld.global.u32 %r3, [%rd1+16];", data)),
              HasSubstr("in no allocation"));
  EXPECT_THAT(MessageOf(RunPtx("ld.global.u32 %r3, [%rd1+2];", data)), HasSubstr("not aligned"));
  EXPECT_THAT(MessageOf(RunPtx("ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd1+4];", data)),
              HasSubstr("of an allocation of 16"));
  EXPECT_THAT(MessageOf(RunPtx("mov.u32 %r3, s;\nst.shared.u32 [%r3+4096], %r1;", data)),
              HasSubstr("shared memory, which has 4096"));
}

// ---- Blocks and launches ----

// Each block adds 1 to data[1] after `release` has passed on its own words, and the last adds up what
// the others left: `acquire` before it.
std::string LastBlockAddsUp(const std::string& release, const std::string& acquire) {
  return absl::StrCat(R"(
  setp.ne.s32 %p1, %r1, 0;
  @%p1 bra $L_end;
  add.s32 %r3, %r2, 100;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3+8], %r3;
)",
                      release, R"(
  atom.global.add.u32 %r4, [%rd1+4], 1;
  setp.ne.s32 %p1, %r4, 3;
  @%p1 bra $L_end;
)",
                      acquire, R"(
  ld.global.u32 %r5, [%rd1+8];
  ld.global.u32 %r6, [%rd1+12];
  add.s32 %r5, %r5, %r6;
  st.global.u32 [%rd1], %r5;
$L_end:
)");
}

TEST(Blocks, FencesAndAtomicAccessesOrderThem) {
  std::vector<uint32_t> data(6);
  const absl::Status status =
      RunPtx(LastBlockAddsUp("fence.acq_rel.gpu;\n", "fence.acq_rel.gpu;\n"), data, {.blocks = 4});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(data[0], 201u);
}

TEST(Blocks, AMissingFenceIsNoticed) {
  std::vector<uint32_t> data(6);
  EXPECT_THAT(MessageOf(RunPtx(LastBlockAddsUp("", "fence.acq_rel.gpu;\n"), data, {.blocks = 4})),
              HasSubstr("writes what this one reads"));
}

// What several raise at a time is no race, where they say so.
TEST(Blocks, RelaxedWritesDoNotRace) {
  std::vector<uint32_t> data(1);
  EXPECT_TRUE(RunPtx("st.relaxed.gpu.global.u32 [%rd1], 1;", data, {.blocks = 4}).ok());
  EXPECT_EQ(data[0], 1u);
  EXPECT_THAT(MessageOf(RunPtx("st.global.u32 [%rd1], 1;", data, {.blocks = 4})),
              HasSubstr("nothing orders them"));
}

constexpr char kWrites[] = "st.global.u32 [%rd1], 5;\n";
constexpr char kReads[] = "ld.global.u32 %r3, [%rd1];\n";
constexpr char kWaits[] = "griddepcontrol.wait;\ngriddepcontrol.launch_dependents;\n";
constexpr testing::Shape kOneThread{.threads = 32};

// By one thread alone.
std::string ByFirst(const std::string& before, const std::string& access) {
  return absl::StrCat(before, "setp.ne.s32 %p1, %r1, 0;\n@%p1 bra $L_end;\n", access, "$L_end:\n");
}

TEST(Launches, WhatOverlapsWaitsForWhatIsWritten) {
  std::vector<uint32_t> data(1);
  const testing::PtxLaunch writes{ByFirst(kWaits, kWrites), kOneThread, true};
  EXPECT_TRUE(RunPtx({writes, {ByFirst(kWaits, kReads), kOneThread, true}}, data).ok());
  EXPECT_TRUE(RunPtx({writes, {ByFirst("", kReads), kOneThread, false}}, data).ok());
  EXPECT_THAT(MessageOf(RunPtx({writes, {ByFirst("", kReads), kOneThread, true}}, data)),
              HasSubstr("may not be over writes this"));
  EXPECT_THAT(MessageOf(RunPtx({writes, {ByFirst(kReads, kWaits), kOneThread, true}}, data)),
              HasSubstr("may not be over writes this"));
}

TEST(Launches, WhatOverlapsWritesNothingThatIsStillRead) {
  std::vector<uint32_t> data(1);
  const testing::PtxLaunch reads{ByFirst(kWaits, kReads), kOneThread, true};
  EXPECT_THAT(MessageOf(RunPtx({reads, {ByFirst("", kWrites), kOneThread, true}}, data)),
              HasSubstr("may not be over reads this"));
}

// To wait for one that has not waited itself says nothing of those before it.
TEST(Launches, ALaunchThatWaitsForNoneHidesThoseBeforeIt) {
  std::vector<uint32_t> data(1);
  const testing::PtxLaunch writes{ByFirst(kWaits, kWrites), kOneThread, true};
  const testing::PtxLaunch reads{ByFirst(kWaits, kReads), kOneThread, true};
  EXPECT_TRUE(RunPtx({writes, {kWaits, kOneThread, true}, reads}, data).ok());
  EXPECT_THAT(MessageOf(RunPtx({writes, {"", kOneThread, true}, reads}, data)),
              HasSubstr("may not be over writes this"));
}

// What is released early may begin beside the launch before the one that releases it.
TEST(Launches, ALaunchThatReleasesEarlyHidesThoseBeforeItUntilTheNextOneWaits) {
  std::vector<uint32_t> data(1);
  const testing::PtxLaunch writes{ByFirst(kWaits, kWrites), kOneThread, true};
  const std::string early = absl::StrCat("griddepcontrol.launch_dependents;\n", kWaits);
  EXPECT_TRUE(
      RunPtx({writes, {early, kOneThread, true}, {ByFirst(kWaits, kReads), kOneThread, true}}, data)
          .ok());
  // Whoever releases after it has waited lets the next one find all before it over.
  EXPECT_TRUE(
      RunPtx({writes, {kWaits, kOneThread, true}, {ByFirst("", kReads), kOneThread, true}}, data)
          .ok());
  EXPECT_THAT(
      MessageOf(RunPtx({writes, {early, kOneThread, true}, {ByFirst("", kReads), kOneThread, true}},
                       data)),
      HasSubstr("may not be over writes this"));
}

}  // namespace
}  // namespace sluice::cuda::emulator
