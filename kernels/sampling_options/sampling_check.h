// Whether sampling options can be served. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/sampling_options/sampling_options.h"

namespace sluice {

// "0 or more", "above 0, up to 1": the range in words.
std::string AcceptedText(const SamplingParameter& parameter);

// INVALID_ARGUMENT naming the parameter, its value and what is accepted: a value out of range, a
// token outside a vocabulary of `vocabulary_size`, or two options that contradict each other.
// `prefix` comes before each name: "sampling.".
absl::Status CheckSamplingOptions(const SamplingOptions& options, int64_t vocabulary_size,
                                  const std::string& prefix = "");

}  // namespace sluice
