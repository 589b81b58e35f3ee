#include "orchestrator/scheduler/step.h"

namespace sluice {

int32_t Step::num_tokens() const {
  size_t total = 0;
  for (const Segment& segment : segments) total += segment.tokens.size();
  return static_cast<int32_t>(total);
}

int32_t Step::num_rows() const {
  size_t total = 0;
  for (const Segment& segment : segments) total += segment.rows.size();
  return static_cast<int32_t>(total);
}

}  // namespace sluice
