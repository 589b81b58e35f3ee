// Reads a file of certificates or tokens. Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace sluice {

// The whole of a regular file; anything else, such as a FIFO, is INVALID_ARGUMENT and is not waited
// for. What the system says, NOT_FOUND or PERMISSION_DENIED for example, where it can't be read. The
// message does not name the path.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path);

}  // namespace sluice
