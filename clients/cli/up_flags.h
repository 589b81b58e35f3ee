// Whether the options of `sluice up` go together.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "clients/cli/model_flags.h"

namespace sluice {

// INVALID_ARGUMENT naming the flag where one lacks another. REQUIRES: the flags are of `up`.
absl::Status CheckUpFlags(const ModelFlags& flags);

// "HOST:PORT", in brackets where the host is an address of IPv6.
std::string AddressOf(const std::string& host, int port);

}  // namespace sluice
