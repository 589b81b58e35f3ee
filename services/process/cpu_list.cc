#include "services/process/cpu_list.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

std::vector<int> MembersOf(const cpu_set_t& set) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

cpu_set_t SetOf(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  return set;
}

bool ParseCpu(absl::string_view text, int* cpu) {
  // SimpleAtoi alone would take signs and spaces.
  return std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, cpu) && *cpu < CPU_SETSIZE;
}

// Adds "3" or "0-3".
absl::Status AddRange(absl::string_view text, cpu_set_t* set) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(text, absl::MaxSplits('-', 1));
  const bool is_range = text.find('-') != absl::string_view::npos;
  int first = 0;
  int last = 0;
  if (!ParseCpu(ends.first, &first) || !ParseCpu(is_range ? ends.second : ends.first, &last) ||
      last < first) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text,
                                                   "\" is not a CPU or a range of CPUs from 0 to ",
                                                   CPU_SETSIZE - 1, "; accepted: such as 0-3,8"));
  }
  for (int cpu = first; cpu <= last; ++cpu) CPU_SET(cpu, set);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseCpuList(const std::string& text) {
  if (text.empty()) return std::vector<int>();
  cpu_set_t asked;
  CPU_ZERO(&asked);
  for (const absl::string_view range : absl::StrSplit(text, ',')) {
    const absl::Status added = AddRange(range, &asked);
    if (!added.ok()) return added;
  }
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return absl::InternalError(absl::StrCat("sched_getaffinity: ", std::strerror(errno)));
  }
  for (const int cpu : MembersOf(asked)) {
    if (CPU_ISSET(cpu, &allowed)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "CPU ", cpu,
        " is not among those that this process may use: ", CpuListText(MembersOf(allowed))));
  }
  return MembersOf(asked);
}

std::string CpuListText(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size(); ++i) {
    const size_t first = i;
    while (i + 1 < cpus.size() && cpus[i + 1] == cpus[i] + 1) ++i;
    absl::StrAppend(&text, text.empty() ? "" : ",", cpus[first]);
    if (i > first) absl::StrAppend(&text, "-", cpus[i]);
  }
  return text;
}

std::vector<int> CpusOfShard(const std::vector<int>& cpus, int shard, int num_shards) {
  const auto size = static_cast<int>(cpus.size());
  if (size < num_shards) return cpus;
  return {cpus.begin() + shard * size / num_shards, cpus.begin() + (shard + 1) * size / num_shards};
}

absl::Status KeepToCpus(const std::vector<int>& cpus) {
  if (cpus.empty()) return absl::OkStatus();
  const cpu_set_t set = SetOf(cpus);
  if (sched_setaffinity(0, sizeof(set), &set) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot keep to CPUs ", CpuListText(cpus), ": ", std::strerror(errno)));
}

}  // namespace sluice
