#include "services/process/cpu_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The CPUs that the calling thread may use.
std::vector<int> Allowed() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

TEST(CpuListTest, ReadsWhatItWrites) {
  const std::vector<int> allowed = Allowed();
  EXPECT_EQ(ParseCpuList(CpuListText(allowed)).value(), allowed);
  const std::string first = std::to_string(allowed.front());
  EXPECT_THAT(ParseCpuList(first).value(), ElementsAre(allowed.front()));
  EXPECT_THAT(ParseCpuList(first + "," + first + "-" + first).value(),
              ElementsAre(allowed.front()));
  EXPECT_THAT(ParseCpuList("").value(), IsEmpty());
}

TEST(CpuListTest, WritesRunsAsRanges) {
  EXPECT_EQ(CpuListText({}), "");
  EXPECT_EQ(CpuListText({5}), "5");
  EXPECT_EQ(CpuListText({0, 1, 2, 4, 8, 9}), "0-2,4,8-9");
}

TEST(CpuListTest, RefusesWhatIsNoList) {
  for (const char* text :
       {"x", "-", "-1", "1-", "3-1", "0,", ",0", "0-1-2", "1024", "0 -1", "1e1"}) {
    const auto cpus = ParseCpuList(text);
    EXPECT_EQ(cpus.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(cpus.status().message()), HasSubstr("accepted: such as 0-3,8")) << text;
  }
}

TEST(CpuListTest, RefusesCpusThatTheProcessMayNotUse) {
  const int beyond = Allowed().back() + 1;
  const auto cpus = ParseCpuList(std::to_string(beyond));
  EXPECT_EQ(cpus.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cpus.status().message()),
              HasSubstr("CPU " + std::to_string(beyond) + " is not among those"));
}

TEST(CpuListTest, SharesCpusOutAmongRanks) {
  const std::vector<int> cpus = {0, 1, 2, 3, 8};
  EXPECT_THAT(CpusOfShard(cpus, 0, 2), ElementsAre(0, 1));
  EXPECT_THAT(CpusOfShard(cpus, 1, 2), ElementsAre(2, 3, 8));
  EXPECT_EQ(CpusOfShard(cpus, 0, 1), cpus);
  EXPECT_EQ(CpusOfShard(cpus, 3, 8), cpus);
  EXPECT_THAT(CpusOfShard({}, 0, 2), IsEmpty());
}

TEST(CpuListTest, KeepsThreadsStartedLaterToTheCpus) {
  const std::vector<int> one = {Allowed().back()};
  std::vector<int> of_child;
  std::thread([&] {  // a thread of its own: the test's stays as it is
    EXPECT_TRUE(KeepToCpus({}).ok());
    EXPECT_EQ(KeepToCpus(one), absl::OkStatus());
    std::thread([&] { of_child = Allowed(); }).join();
  })
      .join();
  EXPECT_EQ(of_child, one);
}

}  // namespace
}  // namespace sluice
