// --adapters and --adapter, as the commands have them that can start a pipeline of their own.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "services/options/flags.h"

namespace sluice {

struct AdapterFlags {
  std::optional<std::string> adapters;  // NAME=DIR,NAME=DIR
  std::optional<std::string> adapter;   // one of the names
};

void AddAdapterFlags(FlagSet& flags, AdapterFlags* into);

// The PEFT folder of the adapter that is asked for; empty: none is. INVALID_ARGUMENT where the list is
// malformed or lacks the name.
absl::StatusOr<std::string> AdapterFolder(const AdapterFlags& flags);

}  // namespace sluice
