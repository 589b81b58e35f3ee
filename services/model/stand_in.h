// What lies in place of a model's file after a download that did not fetch it. Pure function.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sluice {

// FAILED_PRECONDITION, with what to do, where the contents of file `path`, or their beginning, are a
// pointer of Git LFS or a web page.
absl::Status CheckIsNoStandIn(std::string_view contents, const std::string& path);

}  // namespace sluice
