#include "kernels/gpu_ranks/introduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kernels/testing/test_wiring.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

GpuIntroduction Rank(int gpu, const std::string& host, int pid, const std::string& failure = "") {
  GpuIntroduction rank;
  rank.gpu[0] = static_cast<std::byte>(gpu);
  rank.process.pid = pid;
  PutText(host, rank.host);
  PutText(failure, rank.nccl_failure);
  return rank;
}

TEST(ChooseTransport, IsNcclWhereEachHasAGpu) {
  const std::vector<GpuIntroduction> ranks = {Rank(0, "a", 1), Rank(1, "a", 2), Rank(2, "b", 1),
                                              Rank(3, "b", 2)};
  EXPECT_EQ(ChooseTransport(ranks).value(), GpuTransport::kNccl);
}

// Whatever GPUs they have: a thread may have to wait for work that waits for the other's.
TEST(ChooseTransport, IsTheHostWhereAnyTwoAreThreadsOfOneProcess) {
  const std::string missing = "libnccl.so.2: not found";  // is not needed
  const std::vector<GpuIntroduction> on_one_gpu = {Rank(0, "a", 1, missing),
                                                   Rank(0, "a", 1, missing)};
  EXPECT_EQ(ChooseTransport(on_one_gpu).value(), GpuTransport::kHost);
  const std::vector<GpuIntroduction> on_two = {Rank(0, "a", 1), Rank(1, "a", 1)};
  EXPECT_EQ(ChooseTransport(on_two).value(), GpuTransport::kHost);
  const std::vector<GpuIntroduction> last_two = {Rank(0, "a", 1), Rank(0, "a", 2), Rank(0, "b", 1),
                                                 Rank(0, "b", 1)};
  EXPECT_EQ(ChooseTransport(last_two).value(), GpuTransport::kHost);
}

// By whatever way they might exchange.
TEST(ChooseTransport, IsNoneForRanksOfAnotherWiring) {
  for (const int pid : {1, 2}) {
    std::vector<GpuIntroduction> ranks = {Rank(0, "a", 1), Rank(1, "a", pid)};
    for (GpuIntroduction& rank : ranks) rank.wiring = testing::TestWiring();
    EXPECT_TRUE(ChooseTransport(ranks).ok());
    ranks[1].wiring = testing::TestWiring(1, 2);
    const absl::Status status = ChooseTransport(ranks).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("rank 1 is not of the group"), HasSubstr("the wiring nonces")));
  }
}

TEST(ChooseTransport, NamesTheRankWithoutNccl) {
  const std::vector<GpuIntroduction> ranks = {Rank(0, "a", 1),
                                              Rank(1, "a", 2, "libnccl.so.2: not found")};
  const absl::Status status = ChooseTransport(ranks).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 1 has none"), HasSubstr("libnccl.so.2: not found")));
}

TEST(ChooseTransport, IsByCopiesWhereSomeShareAGpu) {
  const std::string missing = "libnccl.so.2: not found";  // is not needed
  const std::vector<GpuIntroduction> ranks = {Rank(0, "a", 1, missing), Rank(1, "a", 2, missing),
                                              Rank(1, "a", 3, missing), Rank(2, "a", 4, missing)};
  EXPECT_EQ(ChooseTransport(ranks).value(), GpuTransport::kPeer);
}

// As in containers that forbid CUDA IPC.
TEST(ChooseTransport, NamesTheRankThatSharesNoMemoryWhereItIsNeeded) {
  std::vector<GpuIntroduction> ranks = {Rank(0, "a", 1), Rank(0, "a", 2)};
  PutText("cudaErrorNotSupported", ranks[1].slots_failure);
  const absl::Status status = ChooseTransport(ranks).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("ranks 0 and 1 share GPU-00"), HasSubstr("which NCCL refuses"),
                    HasSubstr("rank 1 has no memory"), HasSubstr("cudaErrorNotSupported")));
  ranks[1].gpu = Rank(1, "a", 2).gpu;
  EXPECT_EQ(ChooseTransport(ranks).value(), GpuTransport::kNccl);
  ranks[1] = ranks[0];
  PutText("cudaErrorNotSupported", ranks[1].slots_failure);
  EXPECT_EQ(ChooseTransport(ranks).value(), GpuTransport::kHost);
}

TEST(ChooseTransport, RefusesASharedGpuAcrossHosts) {
  const std::vector<GpuIntroduction> ranks = {Rank(0, "a", 1), Rank(0, "a", 2), Rank(1, "b", 1),
                                              Rank(2, "b", 2)};
  const absl::Status status = ChooseTransport(ranks).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("ranks 0 and 1 share GPU-00"), HasSubstr("rank 2 is on another")));
}

TEST(RecordAlike, WhereAllCanAndHaveAsManyMultiprocessors) {
  std::vector<GpuIntroduction> ranks = {Rank(0, "a", 1), Rank(1, "a", 2)};
  ranks[0].num_multiprocessors = ranks[1].num_multiprocessors = 132;
  EXPECT_TRUE(RecordAlike(ranks));
  ranks[1].records_steps = false;
  EXPECT_FALSE(RecordAlike(ranks));
  ranks[1].records_steps = true;
  ranks[1].num_multiprocessors = 114;
  EXPECT_FALSE(RecordAlike(ranks));
}

TEST(InOneProcess, TellsAReusedPidApart) {
  GpuIntroduction a = Rank(0, "a", 7), b = a;
  EXPECT_TRUE(InOneProcess(a, b));
  b.process.start_ticks = 5;
  EXPECT_FALSE(InOneProcess(a, b));
  EXPECT_FALSE(InOneProcess(a, Rank(0, "b", 7)));
}

TEST(Texts, AreCutAndNeverReadPastTheirEnd) {
  std::array<char, 4> text;
  PutText("abcdef", text);
  EXPECT_EQ(TextOf(text), "abc");
  text.fill('x');
  EXPECT_EQ(TextOf(text), "xxxx");
}

}  // namespace
}  // namespace sluice
