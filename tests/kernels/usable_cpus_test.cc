#include "kernels/usable_cpus.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <string>

#include "tests/kernels/fake_machine.h"

namespace sluice::testing {
namespace {

struct Machine : FakeMachine {
  double quota() const { return CpuQuota(root()); }
};

TEST(CpuQuota, NoFilesAreNoLimit) { EXPECT_TRUE(std::isinf(Machine().quota())); }

TEST(CpuQuota, ReadsTheLimitOfAContainer) {
  Machine machine;
  machine.Write("/proc/self/mountinfo", kUnifiedGroups);
  machine.Write("/proc/self/cgroup", "0::/\n");
  machine.Write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(machine.quota()));
  machine.Write("/sys/fs/cgroup/cpu.max", "250000 100000\n");
  EXPECT_EQ(machine.quota(), 2.5);
}

TEST(CpuQuota, TheLeastOfAGroupAndThoseAroundItCounts) {
  Machine machine;
  machine.Write("/proc/self/mountinfo", kUnifiedGroups);
  machine.Write("/proc/self/cgroup", "0::/system.slice/sluice.service\n");
  machine.Write("/sys/fs/cgroup/system.slice/sluice.service/cpu.max", "800000 100000\n");
  EXPECT_EQ(machine.quota(), 8);
  machine.Write("/sys/fs/cgroup/system.slice/cpu.max", "150000 50000\n");
  EXPECT_EQ(machine.quota(), 3);
}

TEST(CpuQuota, ReadsTheFirstVersion) {
  Machine machine;
  machine.Write("/proc/self/mountinfo",
                "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
                "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  machine.Write("/proc/self/cgroup", "4:cpuset:/\n3:cpuacct,cpu:/pod/7\n0::/\n");
  const std::string group = "/sys/fs/cgroup/cpu,cpuacct/pod/7";
  machine.Write(group + "/cpu.cfs_period_us", "100000\n");
  machine.Write(group + "/cpu.cfs_quota_us", "-1\n");
  EXPECT_TRUE(std::isinf(machine.quota()));
  machine.Write(group + "/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(machine.quota(), 4);
}

// As in a container of the first version: the host's path, of which only the end is mounted.
TEST(CpuQuota, FindsAGroupThatIsMountedByItself) {
  Machine machine;
  machine.Write("/proc/self/mountinfo",
                "33 31 0:30 /docker/4711 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  machine.Write("/proc/self/cgroup", "1:cpu:/docker/4711\n");
  machine.Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  machine.Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(machine.quota(), 2);
}

TEST(CpuQuota, WhatMakesNoSenseLimitsNothing) {
  Machine machine;
  machine.Write("/proc/self/mountinfo", std::string(kUnifiedGroups) + "nonsense\n - cgroup2 x y\n");
  machine.Write("/proc/self/cgroup", "0::/a\nnonsense\n::\n");
  for (const std::string limit : {"", "0 0", "-3 100000", "x y", "1", "1 2 3"}) {
    machine.Write("/sys/fs/cgroup/a/cpu.max", limit);
    EXPECT_TRUE(std::isinf(machine.quota())) << limit;
  }
}

TEST(UsableCpus, AreAtLeastOneAndNoMoreThanTheSchedulerAllows) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  EXPECT_GE(UsableCpus(), 1);
  EXPECT_LE(UsableCpus(), CPU_COUNT(&allowed));
}

}  // namespace
}  // namespace sluice::testing
