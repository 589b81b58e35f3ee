// What docs/sampling.md says of every parameter, from the table.
#pragma once

#include <string>

#include "kernels/sampling_options/sampling_options.h"

namespace sluice {

// "1", "0.1", "empty": the value that switches the parameter off, or its default where none does.
std::string NeutralText(const SamplingParameter& parameter);

// A Markdown table with a row for each parameter, by the order of the stages.
std::string SamplingReference();

}  // namespace sluice
