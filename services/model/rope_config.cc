#include "services/model/rope_config.h"

#include <limits>

namespace sluice {

int32_t RopeConfig::RopeLengthClass(int32_t length) const {
  constexpr int32_t kAny = std::numeric_limits<int32_t>::max();
  if (!depends_on_length()) return kAny;
  if (length <= original_positions) return original_positions;
  return scaling == RopeScaling::kLongRope ? kAny : length;
}

}  // namespace sluice
