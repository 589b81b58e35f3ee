// Logs: one line per state transition on stderr, `time level service event key=value ...`; none per
// token. Never blocks on the reader of stderr: lines that find no room are dropped, and a line
// `log-lines-dropped count=N` says how many (stderr_writer.h). Thread-safe.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sluice {

enum class LogLevel { kInfo, kWarning, kError };

// One key=value pair; values with anything but plain printable characters are written quoted, and
// escaped as in C.
struct LogField {
  LogField(absl::string_view key,
           const absl::AlphaNum& value)  // NOLINT(google-explicit-constructor)
      : key(key), value(value.Piece()) {}
  absl::string_view key;
  std::string value;
};

// `event` is a short noun phrase with dashes, such as "replica-lost".
void Log(LogLevel level, absl::string_view service, absl::string_view event,
         std::initializer_list<LogField> fields = {});

// Lines below `level` are dropped. Default: kInfo.
void SetMinimumLogLevel(LogLevel level);

// "info", "warning" or "error"; INVALID_ARGUMENT for anything else.
absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name);
absl::string_view Name(LogLevel level);

}  // namespace sluice
