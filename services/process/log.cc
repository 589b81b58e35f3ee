#include "services/process/log.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "services/process/log_format.h"
#include "services/process/log_prefix.h"
#include "services/process/stderr_writer.h"

namespace sluice {
namespace {

std::atomic<LogLevel> minimum_level{LogLevel::kInfo};
std::atomic<LogFormat> format{LogFormat::kText};
std::atomic<std::string (*)()> line_prefix{nullptr};

absl::string_view Letter(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return "I";
    case LogLevel::kWarning:
      return "W";
    case LogLevel::kError:
      return "E";
  }
  return "?";
}

// Values may be a client's: none may end the line, look like another field, or steer a terminal.
std::string Quoted(absl::string_view value) {
  const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c)) && c != '"' && c != '=' && c != '\\';
  });
  return plain ? std::string(value) : absl::StrCat("\"", absl::CEscape(value), "\"");
}

// A JSON string. Bytes beyond ASCII are written as what they are in Latin-1: values may be a
// client's, and a line must be valid whatever they are.
std::string JsonString(absl::string_view value) {
  std::string json = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (absl::ascii_isprint(byte)) {
      json += c;
    } else {
      absl::StrAppend(&json, "\\u", absl::Hex(byte, absl::kZeroPad4));
    }
  }
  return json + "\"";
}

std::string TextLine(absl::string_view time, LogLevel level, absl::string_view service,
                     absl::string_view event, std::initializer_list<LogField> fields) {
  std::string line = absl::StrCat(time, " ", Letter(level), " ", service, " ", event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=", Quoted(field.value));
  }
  return line + "\n";
}

std::string JsonLine(absl::string_view time, LogLevel level, absl::string_view service,
                     absl::string_view event, std::initializer_list<LogField> fields) {
  std::string line =
      absl::StrCat("{\"time\":", JsonString(time), ",\"level\":", JsonString(Name(level)),
                   ",\"service\":", JsonString(service), ",\"event\":", JsonString(event));
  for (const LogField& field : fields) {
    absl::StrAppend(&line, ",", JsonString(field.key), ":", JsonString(field.value));
  }
  return line + "}\n";
}

constexpr std::pair<LogLevel, const char*> kLevels[] = {
    {LogLevel::kInfo, "info"}, {LogLevel::kWarning, "warning"}, {LogLevel::kError, "error"}};

}  // namespace

void SetLogPrefix(std::string (*prefix)()) { line_prefix = prefix; }

void SetMinimumLogLevel(LogLevel level) { minimum_level = level; }

absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name) {
  for (const auto& [level, level_name] : kLevels) {
    if (name == level_name) return level;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is no level; accepted: info, warning, error"));
}

absl::string_view Name(LogLevel level) {
  for (const auto& [known, name] : kLevels) {
    if (level == known) return name;
  }
  return "?";
}

void SetLogFormat(LogFormat wanted) { format = wanted; }

absl::StatusOr<LogFormat> ParseLogFormat(absl::string_view name) {
  for (const LogFormat known : {LogFormat::kText, LogFormat::kJson}) {
    if (Name(known) == name) return known;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is no format; accepted: text, json"));
}

absl::string_view Name(LogFormat wanted) { return wanted == LogFormat::kJson ? "json" : "text"; }

void Log(LogLevel level, absl::string_view service, absl::string_view event,
         std::initializer_list<LogField> fields) {
  if (level < minimum_level) return;
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  const auto line = format == LogFormat::kJson ? JsonLine : TextLine;
  uint64_t lost = 0;
  std::string (*const prefix)() = line_prefix;
  // One write per line, so that lines of several processes on one terminal do not mix.
  StderrWriter::Get().Write(absl::StrCat(prefix != nullptr ? prefix() : std::string(),
                                         line(time, level, service, event, fields)),
                            &lost);
  if (lost == 0) return;
  StderrWriter::Get().Write(
      line(time, LogLevel::kWarning, service, "log-lines-dropped", {{"count", lost}}), &lost);
}

}  // namespace sluice
