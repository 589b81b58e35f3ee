// How --help of a program shows its flags. Called by main() alone, before it parses them.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// Of the flags that are linked in, --help shows those of Sluice's mains, process.cc, log_flags.cc
// and telemetry_flags.cc, under the files' paths in the repository, wherever that was built.
void ShowOwnFlags();

// "services/shard/main.cc" for a source file of a service or the orchestrator in any folder; other
// paths stay as they are.
std::string PathInRepository(absl::string_view file);

}  // namespace sluice
