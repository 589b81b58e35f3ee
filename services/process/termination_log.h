// A file in which supervisors look for why a process has ended: Kubernetes shows what is in a
// container's /dev/termination-log with the container. Thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Empty: there is none, as at first. An error, after which there is none, where the path can't be
// written to: readers would find nothing there. Creates nothing yet.
absl::Status SetTerminationLog(std::string path);

// Puts `reason` there in place of what it held; 4,096 bytes at most, which is what is read. What
// can't be written goes unsaid: the same is in the log.
void WriteTerminationLog(absl::string_view reason);

}  // namespace sluice
