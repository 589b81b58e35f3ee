// Digests of files, as a hub names them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "clients/hub/hub_listing.h"

namespace sluice {

// DATA_LOSS where the file at `path` is not the one that `file` describes, by its size or digest;
// UNAVAILABLE where it cannot be read.
absl::Status CheckFile(const std::string& path, const HubFile& file);

}  // namespace sluice
