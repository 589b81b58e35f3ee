// What the Linux control groups that this process is in limit: versions 1 and 2, whatever sets them,
// a container's runtime or systemd.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Reads one group's own limit from the files in its `folder`; infinity where it has none.
using GroupLimit = absl::FunctionRef<double(const std::string& folder, bool is_v2)>;

// The least limit of the process's group under `controller` ("cpu", "memory") and of the groups around
// it; infinity where none has one. Reads proc/self/{cgroup,mountinfo} and the groups' own files below
// `root`, "" being the machine itself; what it can't read limits nothing.
double LeastGroupLimit(const std::string& root, absl::string_view controller, GroupLimit limit);

// All that a file holds; nothing where it can't be read.
std::string ReadGroupFile(const std::string& path);

}  // namespace sluice
