// The commands of the `sluice` program, those that measure or compare models included.
#pragma once

#include "absl/types/span.h"
#include "clients/cli/cli.h"

namespace sluice {

// In the order of the overview that `sluice help` prints.
absl::Span<const Command> AllCommands();

}  // namespace sluice
