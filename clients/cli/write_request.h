// One Generate call from its request to its printed end: what `run` and `generate` share.
#pragma once

#include "clients/cli/client.h"
#include "clients/cli/environment.h"
#include "clients/cli/request_flags.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

// Streams the result to stdout, then a line about tokens and speed to stderr unless `flags.json`.
// Returns the exit status.
int WriteRequest(Client& client, const v1::GenerateRequest& request, const RequestFlags& flags,
                 Environment& environment);

}  // namespace sluice
