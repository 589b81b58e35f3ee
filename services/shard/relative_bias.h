// The biases of relative positions (RelativeSpec) by distance instead of by bucket. Pure functions.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "services/model/layer_spec.h"

namespace sluice {

// Which keys a bias is for.
enum class BiasSides { kBefore, kBoth };

// The bucket of keys that lie `offset` positions behind their query, or before it where that is negative.
// Distances at the edge of two growing buckets belong to the upper one.
int BucketOf(int offset, const RelativeSpec& relative, BiasSides sides);

// DistanceBias::values with a reach of relative.max_distance, beyond which nothing changes.
// by_bucket [buckets, num_heads].
std::vector<float> BiasByDistance(absl::Span<const float> by_bucket, int num_heads,
                                  const RelativeSpec& relative, BiasSides sides);

}  // namespace sluice
