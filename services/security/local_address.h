// Recognises addresses that stay on this host. A pure function.
#pragma once

#include "absl/strings/string_view.h"

namespace sluice {

// True for unix sockets, in-process names and loopback addresses.
bool IsLocalAddress(absl::string_view address);

bool IsUnixAddress(absl::string_view address);

// True for unix sockets and in-process names, which only their owner can reach.
bool IsOwnersAddress(absl::string_view address);

}  // namespace sluice
