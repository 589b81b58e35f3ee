// Sampling options to and from messages, field by field as the table names them. Pure functions.
#pragma once

#include "kernels/sampling_options/sampling_options.h"
#include "sluice/v1/sampling.pb.h"

namespace sluice {

// Sets the field of one parameter, neutral or not.
void SetField(const SamplingParameter& parameter, const SamplingOptions& options,
              v1::SamplingOptions& message);

// What is not neutral; a field that is not set is neutral.
v1::SamplingOptions ToMessage(const SamplingOptions& options);

// `defaults` with what the message sets in their place; a list that is empty is not set.
SamplingOptions Merged(SamplingOptions defaults, const v1::SamplingOptions& message);

}  // namespace sluice
