// The CPUs that a process keeps to, as flags name them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// "0-3,8" as {0, 1, 2, 3, 8}: ascending, each once. Empty text: an empty list. INVALID_ARGUMENT
// naming what is wrong, also for a CPU that this process may not use or the machine does not have.
absl::StatusOr<std::vector<int>> ParseCpuList(const std::string& text);

// The reverse of ParseCpuList, with runs as ranges.
std::string CpuListText(const std::vector<int>& cpus);

// What shard `shard` of `num_shards`, stages and ranks together, gets of `cpus`: neighbours, as
// many as the others but for one, or all of them where there are fewer than shards.
std::vector<int> CpusOfShard(const std::vector<int>& cpus, int shard, int num_shards);

// Keeps the calling thread, and all threads that it or they start from now on, to `cpus`; an empty
// list changes nothing. INVALID_ARGUMENT where the system refuses.
absl::Status KeepToCpus(const std::vector<int>& cpus);

}  // namespace sluice
