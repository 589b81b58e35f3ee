// What Git LFS leaves in place of a file that was not fetched. Pure function.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sluice {

// FAILED_PRECONDITION, with what to do, where the contents of file `path`, or their beginning, are
// such a pointer.
absl::Status CheckNoLfsPointer(std::string_view contents, const std::string& path);

}  // namespace sluice
