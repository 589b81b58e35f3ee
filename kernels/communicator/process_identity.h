// Tells whether another process on this host still runs, without being its parent. A pid alone does
// not: the kernel hands it out again, so it is paired with the time the process started.
#pragma once

#include <array>
#include <cstdint>

namespace sluice {

// Plain data, so that it can be left in shared memory.
struct ProcessIdentity {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;    // since boot, from /proc/<pid>/stat; 0 where it can't be read
  std::uint64_t pid_namespace = 0;  // inode of /proc/self/ns/pid; pids compare only within one
};

ProcessIdentity ThisProcess();

// Whether these are one process.
bool IsSameProcess(const ProcessIdentity& a, const ProcessIdentity& b);

// The host by its boot: pids and memory are of one alone. Zeroes behind it.
using HostBootId = std::array<char, 64>;
HostBootId ThisHost();

// True only where the process certainly no longer runs (gone, a zombie, or its pid reused). A
// process of another pid namespace can't be seen from here and counts as alive. Costs some 20 us.
bool HasDied(const ProcessIdentity& process);

}  // namespace sluice
