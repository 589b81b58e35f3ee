// The contract of kernels/sampling.h as plain loops in double: full sorts where there is an order,
// probabilities computed anew after every filter.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "kernels/sampling.h"

namespace sluice {

// The edited logits; forbidden tokens have -infinity.
std::vector<float> ReferenceEditedLogits(absl::Span<const float> logits, const SampleRow& row);

// What the row's token is drawn from, by ascending id. REQUIRES: logits are finite, and some token
// is not forbidden.
std::vector<TokenProbability> ReferenceDistribution(absl::Span<const float> logits,
                                                    const SampleRow& row);

SampledRow ReferenceSample(absl::Span<const float> logits, const SampleRow& row);

}  // namespace sluice
