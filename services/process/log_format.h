// Format of log lines: text for people, or JSON for log collectors. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

enum class LogFormat {
  kText,  // time level service event key=value ...
  kJson,  // {"time": .., "level": "info", "service": .., "event": .., key: "value", ...}
};

// Default: kText.
void SetLogFormat(LogFormat format);

// "text" or "json"; INVALID_ARGUMENT for anything else.
absl::StatusOr<LogFormat> ParseLogFormat(absl::string_view name);
absl::string_view Name(LogFormat format);

}  // namespace sluice
