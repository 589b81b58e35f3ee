// How many CPUs this process may keep busy.
#pragma once

#include <string>

namespace sluice {

// The CPUs that the scheduler lets it run on, and no more than whole CPUs of what its control
// groups (Linux cgroups, version 1 and 2: the limits of containers) grant it a period: with more
// threads at work than that, all of them would stand still for the rest of each period. At least 1.
int UsableCpus();

// The least quota of the control groups that this process is in, in CPUs; infinity where none has
// one. `root` as in LeastGroupLimit().
double CpuQuota(const std::string& root);

}  // namespace sluice
