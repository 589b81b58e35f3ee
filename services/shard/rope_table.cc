#include "services/shard/rope_table.h"

#include <cmath>
#include <cstddef>

#include "kernels/check.h"

namespace sluice {

RopeTable::RopeTable(int head_dim, double theta) : frequencies_(head_dim / 2) {
  SLUICE_CHECK(head_dim >= 2 && head_dim % 2 == 0 && theta > 0);
  for (int i = 0; i < pairs(); ++i) frequencies_[i] = std::pow(theta, -2.0 * i / head_dim);
}

void RopeTable::Fill(absl::Span<const int32_t> positions, absl::Span<float> cos,
                     absl::Span<float> sin) const {
  SLUICE_CHECK(cos.size() == positions.size() * frequencies_.size() && sin.size() == cos.size());
  size_t index = 0;
  for (const int32_t position : positions) {
    for (const double frequency : frequencies_) {
      const double angle = position * frequency;
      cos[index] = static_cast<float>(std::cos(angle));
      sin[index] = static_cast<float>(std::sin(angle));
      ++index;
    }
  }
}

}  // namespace sluice
