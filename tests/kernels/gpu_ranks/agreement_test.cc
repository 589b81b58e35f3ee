#include "kernels/gpu_ranks/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kernels/testing/rank_threads.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

// What each of three ranks gets where they bring `own`.
std::vector<absl::Status> Agree(const std::vector<absl::Status>& own) {
  const std::string group = UniqueGroupName();
  std::vector<absl::Status> agreed(own.size());
  const absl::Status met = OnEveryRank(static_cast<int>(own.size()), [&](int rank) {
    auto communicator = Join(group, rank, static_cast<int>(own.size()));
    if (!communicator.ok()) return communicator.status();
    agreed[rank] = AllSucceeded(**communicator, own[rank], Deadline::After(absl::Seconds(60)));
    return absl::OkStatus();
  });
  EXPECT_TRUE(met.ok()) << met;
  return agreed;
}

TEST(AllSucceeded, WhereAllHave) {
  for (const absl::Status& status : Agree({{}, {}, {}})) EXPECT_TRUE(status.ok()) << status;
}

TEST(AllSucceeded, TellsEverybodyWhoHasNot) {
  for (const absl::Status& status :
       Agree({{}, absl::InternalError("no memory to map"), absl::InternalError("")})) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: no memory to map"));
  }
}

TEST(GatherBytesOnGpus, FallWithTheNumberOfRanks) {
  EXPECT_GT(GatherBytesOnGpus(2), size_t{1} << 40) << "two ranks receive as much either way";
  EXPECT_GT(GatherBytesOnGpus(4), GatherBytesOnGpus(8));
  EXPECT_GT(GatherBytesOnGpus(8), size_t{64} << 10);
}

}  // namespace
}  // namespace sluice::testing
