#include "kernels/control_groups.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

bool Names(absl::string_view list, absl::string_view name) {
  for (const absl::string_view each : absl::StrSplit(list, ',')) {
    if (each == name) return true;
  }
  return false;
}

// A mounted hierarchy of groups that may have the controller.
struct Hierarchy {
  bool is_v2;
  std::string group;  // the group that is mounted
  std::string mount;  // and where
};

// A line of mountinfo (proc(5)): "36 35 98:0 GROUP MOUNT OPTIONS [TAGS...] - TYPE SOURCE OPTIONS".
std::optional<Hierarchy> ParseMount(absl::string_view line, absl::string_view controller) {
  const std::pair<absl::string_view, absl::string_view> halves =
      absl::StrSplit(line, absl::MaxSplits(" - ", 1));
  const std::vector<std::string> mount = absl::StrSplit(halves.first, ' ');
  const std::vector<std::string> system = absl::StrSplit(halves.second, ' ');
  if (mount.size() < 5 || system.size() < 3) return std::nullopt;
  const bool is_v2 = system[0] == "cgroup2";
  if (!is_v2 && !(system[0] == "cgroup" && Names(system[2], controller))) return std::nullopt;
  return Hierarchy{is_v2, mount[3], mount[4]};
}

// The group of this process in the hierarchy: of "ID:CONTROLLERS:GROUP" lines (cgroups(7)), the one
// that names the controller, or none at all in version 2.
std::optional<std::string> GroupIn(const Hierarchy& hierarchy, const std::string& groups,
                                   absl::string_view controller) {
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool is_its = hierarchy.is_v2 ? parts[0] == "0" : Names(parts[1], controller);
    if (is_its) return std::string(parts[2]);
  }
  return std::nullopt;
}

// The least of the group's and those around it.
double LeastAround(const std::string& root, const Hierarchy& hierarchy, absl::string_view group,
                   GroupLimit limit) {
  // Seen from a container without a name space of its own, the path begins outside the mount.
  if (hierarchy.group != "/" && !absl::ConsumePrefix(&group, hierarchy.group)) group = "";
  std::string below(absl::StripSuffix(group, "/"));
  double least = std::numeric_limits<double>::infinity();
  while (true) {
    least = std::min(least, limit(absl::StrCat(root, hierarchy.mount, below), hierarchy.is_v2));
    const size_t parent = below.rfind('/');
    if (parent == std::string::npos) return least;
    below.resize(parent);
  }
}

}  // namespace

std::string ReadGroupFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

double LeastGroupLimit(const std::string& root, absl::string_view controller, GroupLimit limit) {
  const std::string groups = ReadGroupFile(root + "/proc/self/cgroup");
  const std::string mounts = ReadGroupFile(root + "/proc/self/mountinfo");
  double least = std::numeric_limits<double>::infinity();
  for (const absl::string_view line : absl::StrSplit(mounts, '\n')) {
    const std::optional<Hierarchy> hierarchy = ParseMount(line, controller);
    if (!hierarchy.has_value()) continue;
    const std::optional<std::string> group = GroupIn(*hierarchy, groups, controller);
    if (group.has_value()) least = std::min(least, LeastAround(root, *hierarchy, *group, limit));
  }
  return least;
}

}  // namespace sluice
