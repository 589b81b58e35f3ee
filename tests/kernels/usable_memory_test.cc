#include "kernels/usable_memory.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/kernels/fake_machine.h"

namespace sluice::testing {
namespace {

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

struct MemoryMachine : FakeMachine {
  uint64_t limit() const { return MemoryLimit(root()); }
};

TEST(MemoryLimit, NoFilesAreNoLimit) { EXPECT_EQ(MemoryMachine().limit(), kNone); }

TEST(MemoryLimit, ReadsTheLimitOfAContainer) {
  MemoryMachine machine;
  machine.Write("/proc/self/mountinfo", kUnifiedGroups);
  machine.Write("/proc/self/cgroup", "0::/\n");
  machine.Write("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(machine.limit(), kNone);
  machine.Write("/sys/fs/cgroup/memory.max", "2147483648\n");
  EXPECT_EQ(machine.limit(), uint64_t{2} << 30);
}

TEST(MemoryLimit, TheLeastOfAGroupAndThoseAroundItCounts) {
  MemoryMachine machine;
  machine.Write("/proc/self/mountinfo", kUnifiedGroups);
  machine.Write("/proc/self/cgroup", "0::/kubepods/pod7/c1\n");
  machine.Write("/sys/fs/cgroup/kubepods/pod7/c1/memory.max", "max\n");
  machine.Write("/sys/fs/cgroup/kubepods/pod7/memory.max", "104857600\n");
  EXPECT_EQ(machine.limit(), uint64_t{100} << 20);
}

TEST(MemoryLimit, ReadsTheFirstVersion) {
  MemoryMachine machine;
  machine.Write("/proc/self/mountinfo",
                "33 31 0:30 /k8s/pod7 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  machine.Write("/proc/self/cgroup", "8:memory:/k8s/pod7\n3:cpu:/other\n");
  machine.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(machine.limit(), kNone);
  machine.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "100663296\n");
  EXPECT_EQ(machine.limit(), uint64_t{96} << 20);
}

TEST(MemoryLimit, WhatMakesNoSenseLimitsNothing) {
  MemoryMachine machine;
  machine.Write("/proc/self/mountinfo", kUnifiedGroups);
  machine.Write("/proc/self/cgroup", "0::/a\n");
  for (const std::string limit : {"", "0", "-3", "much", "nan"}) {
    machine.Write("/sys/fs/cgroup/a/memory.max", limit);
    EXPECT_EQ(machine.limit(), kNone) << limit;
  }
}

}  // namespace
}  // namespace sluice::testing
