#include "orchestrator/scheduler/scheduler_options.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status Validate(const SchedulerOptions& options) {
  const std::pair<const char*, int32_t> fields[] = {
      {"max_tokens_per_step", options.max_tokens_per_step},
      {"max_sequences_per_step", options.max_sequences_per_step},
      {"max_queued_sequences", options.max_queued_sequences},
      {"max_queued_tokens", options.max_queued_tokens},
      {"max_positions", options.max_positions},
      {"max_inflight_steps", options.max_inflight_steps},
  };
  for (const auto& [name, value] : fields) {
    if (value < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is ", value, "; it must be at least 1"));
    }
  }
  if (options.steps_ahead < 0 || options.steps_ahead > 63) {
    return absl::InvalidArgumentError(
        absl::StrCat("steps_ahead is ", options.steps_ahead, "; accepted: 0 to 63"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
