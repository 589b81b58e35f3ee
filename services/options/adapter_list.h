// What --adapters says. Pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

// Name and folder of each of "NAME=DIR,NAME=DIR", in order. INVALID_ARGUMENT for anything else, and
// where a name comes twice.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParseAdapterList(
    const std::string& text);

}  // namespace sluice
