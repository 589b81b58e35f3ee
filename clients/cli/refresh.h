// Commands that show how something is again and again until Ctrl-C.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/cli/environment.h"

namespace sluice {

// Shows what `look` gives every `interval`: on a terminal as much of it as there is room for, in place
// of what stood there; elsewhere one after another with an empty line between. Ends with the exit
// status of the interrupt, of a look that fails, or of a stdout that takes no more.
int ShowUntilInterrupted(Environment& environment, absl::Duration interval,
                         const std::function<absl::StatusOr<std::string>()>& look);

}  // namespace sluice
