// A flag for every sampling parameter, from the table in kernels/sampling_options. Ranges are the
// server's to judge.
#pragma once

#include <initializer_list>

#include "absl/strings/string_view.h"
#include "services/options/flags.h"
#include "sluice/v1/sampling.pb.h"

namespace sluice {

// What is given is set in `*into`. `except` names parameters that the command has no flag for.
void AddSamplingParameters(FlagSet& flags, v1::SamplingOptions* into,
                           std::initializer_list<absl::string_view> except = {});

}  // namespace sluice
