#include "orchestrator/capacity/service_levels.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace sluice {
namespace {

constexpr std::pair<const char*, std::optional<double> ServiceLevels::*> kLevels[] = {
    {"ttft", &ServiceLevels::first_token},
    {"tpot", &ServiceLevels::between_tokens},
    {"e2e", &ServiceLevels::request}};

absl::Status BadLevel(const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text,
      "\" is no service level; accepted, each once: ttft=TIME (to the first token), "
      "tpot=TIME (between tokens) and e2e=TIME (of a request), such as ttft=1s,tpot=50ms"));
}

}  // namespace

absl::StatusOr<ServiceLevels> ParseServiceLevels(const std::string& text) {
  ServiceLevels levels;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    const std::vector<std::string> words = absl::StrSplit(part, absl::MaxSplits('=', 1));
    absl::Duration time;
    bool known = false;
    for (const auto& [name, field] : kLevels) {
      if (words.size() != 2 || words[0] != name || (levels.*field).has_value()) continue;
      known = absl::ParseDuration(words[1], &time) && time > absl::ZeroDuration() &&
              time < absl::InfiniteDuration();
      levels.*field = absl::ToDoubleSeconds(time);
    }
    if (!known) return BadLevel(part);
  }
  return levels;
}

std::string FormatServiceLevels(const ServiceLevels& levels) {
  std::vector<std::string> parts;
  for (const auto& [name, field] : kLevels) {
    if (!(levels.*field).has_value()) continue;
    parts.push_back(absl::StrCat(name, " ", absl::FormatDuration(absl::Seconds(*(levels.*field)))));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace sluice
