#include "services/telemetry/trace_sampler.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

constexpr size_t kLowDigits = 16;

}  // namespace

bool TraceSampler::Samples(const std::optional<TraceContext>& caller,
                           const TraceContext& trace) const {
  if (follows_caller && caller.has_value()) return caller->sampled();
  return IsSampled(trace, ratio);
}

bool IsSampled(const TraceContext& trace, double ratio) {
  if (ratio >= 1) return true;
  uint64_t low = 0;
  const std::string& id = trace.trace_id;
  if (id.size() < kLowDigits || !absl::SimpleHexAtoi(id.substr(id.size() - kLowDigits), &low)) {
    return false;
  }
  return std::ldexp(static_cast<double>(low >> 1), -63) < ratio;
}

absl::StatusOr<TraceSampler> ParseTraceSampler(absl::string_view name, absl::string_view argument) {
  const std::string given(name);
  TraceSampler sampler{.follows_caller = absl::ConsumePrefix(&name, "parentbased_")};
  if (name == "always_on") return sampler;
  if (name == "always_off") {
    sampler.ratio = 0;
    return sampler;
  }
  if (name != "traceidratio") {
    return absl::InvalidArgumentError(
        absl::StrCat("no sampler ", given,
                     "; accepted: always_on, always_off, traceidratio, each also with parentbased_ "
                     "before it"));
  }
  if (argument.empty()) return sampler;
  if (!absl::SimpleAtod(argument, &sampler.ratio) || !(sampler.ratio >= 0 && sampler.ratio <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ratio is \"", argument, "\"; accepted: 0 to 1"));
  }
  return sampler;
}

}  // namespace sluice
