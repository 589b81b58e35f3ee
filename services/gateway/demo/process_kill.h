// Kills another process of the pipeline, for demonstrations.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace sluice::gateway {

// Sends SIGKILL to the stage or tokenizer that listens at `address`, if the process that started
// this one has started it too: no other can be reached. NOT_FOUND where there is none.
absl::Status KillSibling(const std::string& address);

}  // namespace sluice::gateway
