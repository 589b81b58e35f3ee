#include "services/shard/relative_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace sluice {

int BucketOf(int offset, const RelativeSpec& relative, BiasSides sides) {
  int buckets = relative.buckets, side = 0;
  if (sides == BiasSides::kBoth) {
    buckets /= 2;
    if (offset > 0) side = buckets;
  }
  const int distance = sides == BiasSides::kBoth ? std::abs(offset) : std::max(-offset, 0);
  const int exact = buckets / 2;
  if (distance < exact) return side + distance;
  // Edges are exact powers, which a logarithm may miss by its last bit.
  constexpr double kEdge = 1e-9;
  const double growth = std::log(static_cast<double>(distance) / exact) /
                        std::log(static_cast<double>(relative.max_distance) / exact);
  const int further = exact + static_cast<int>(std::floor(growth * (buckets - exact) + kEdge));
  return side + std::min(further, buckets - 1);
}

std::vector<float> BiasByDistance(absl::Span<const float> by_bucket, int num_heads,
                                  const RelativeSpec& relative, BiasSides sides) {
  const int reach = relative.max_distance;
  std::vector<float> values;
  values.reserve(static_cast<size_t>(num_heads) * (2 * reach + 1));
  for (int head = 0; head < num_heads; ++head) {
    for (int offset = -reach; offset <= reach; ++offset) {
      values.push_back(by_bucket[BucketOf(offset, relative, sides) * num_heads + head]);
    }
  }
  return values;
}

}  // namespace sluice
