#include "kernels/usable_cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool Names(absl::string_view list, absl::string_view name) {
  for (const absl::string_view each : absl::StrSplit(list, ',')) {
    if (each == name) return true;
  }
  return false;
}

// A mounted hierarchy of groups that can limit CPU time.
struct Hierarchy {
  bool is_v2;
  std::string group;  // the group that is mounted
  std::string mount;  // and where
};

// A line of mountinfo (proc(5)): "36 35 98:0 GROUP MOUNT OPTIONS [TAGS...] - TYPE SOURCE OPTIONS".
std::optional<Hierarchy> ParseMount(absl::string_view line) {
  const std::pair<absl::string_view, absl::string_view> halves =
      absl::StrSplit(line, absl::MaxSplits(" - ", 1));
  const std::vector<std::string> mount = absl::StrSplit(halves.first, ' ');
  const std::vector<std::string> system = absl::StrSplit(halves.second, ' ');
  if (mount.size() < 5 || system.size() < 3) return std::nullopt;
  const bool is_v2 = system[0] == "cgroup2";
  if (!is_v2 && !(system[0] == "cgroup" && Names(system[2], "cpu"))) return std::nullopt;
  return Hierarchy{is_v2, mount[3], mount[4]};
}

// The group of this process in the hierarchy: of "ID:CONTROLLERS:GROUP" lines (cgroups(7)), the one
// that names the CPU controller, or none at all in version 2.
std::optional<std::string> GroupIn(const Hierarchy& hierarchy, const std::string& groups) {
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool is_its = hierarchy.is_v2 ? parts[0] == "0" : Names(parts[1], "cpu");
    if (is_its) return std::string(parts[2]);
  }
  return std::nullopt;
}

double Quotient(absl::string_view quota, absl::string_view period) {
  double microseconds = 0, of = 0;
  if (!absl::SimpleAtod(quota, &microseconds) || !absl::SimpleAtod(period, &of)) return kUnlimited;
  return microseconds > 0 && of > 0 ? microseconds / of : kUnlimited;
}

// What the group in `folder` is granted by itself.
double QuotaOf(const std::string& folder, bool is_v2) {
  if (!is_v2) {
    return Quotient(Read(folder + "/cpu.cfs_quota_us"), Read(folder + "/cpu.cfs_period_us"));
  }
  // "max 100000" or "150000 100000".
  const std::string limit = Read(folder + "/cpu.max");
  const std::vector<absl::string_view> parts =
      absl::StrSplit(limit, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  return parts.size() == 2 ? Quotient(parts[0], parts[1]) : kUnlimited;
}

// The least of the group's and those around it.
double LeastQuota(const std::string& root, const Hierarchy& hierarchy, absl::string_view group) {
  // Seen from a container without a name space of its own, the path begins outside the mount.
  if (hierarchy.group != "/" && !absl::ConsumePrefix(&group, hierarchy.group)) group = "";
  std::string below(absl::StripSuffix(group, "/"));
  double least = kUnlimited;
  while (true) {
    least = std::min(least, QuotaOf(root + hierarchy.mount + below, hierarchy.is_v2));
    const size_t parent = below.rfind('/');
    if (parent == std::string::npos) return least;
    below.resize(parent);
  }
}

}  // namespace

double CpuQuota(const std::string& root) {
  const std::string groups = Read(root + "/proc/self/cgroup");
  const std::string mounts = Read(root + "/proc/self/mountinfo");
  double least = kUnlimited;
  for (const absl::string_view line : absl::StrSplit(mounts, '\n')) {
    const std::optional<Hierarchy> hierarchy = ParseMount(line);
    if (!hierarchy.has_value()) continue;
    const std::optional<std::string> group = GroupIn(*hierarchy, groups);
    if (group.has_value()) least = std::min(least, LeastQuota(root, *hierarchy, *group));
  }
  return least;
}

int UsableCpus() {
  cpu_set_t allowed;
  const int cpus = sched_getaffinity(0, sizeof(allowed), &allowed) == 0
                       ? CPU_COUNT(&allowed)
                       : static_cast<int>(std::thread::hardware_concurrency());
  const double granted = std::floor(CpuQuota(""));
  return static_cast<int>(std::clamp<double>(granted, 1, std::max(cpus, 1)));
}

}  // namespace sluice
