#include "services/common/log_flags.h"

#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "services/common/grpc_runtime.h"
#include "services/common/log.h"
#include "services/common/log_format.h"
#include "services/common/termination_log.h"

ABSL_FLAG(std::string, log_level, "info",
          "least level of lines in the log: info, warning or error");
ABSL_FLAG(std::string, log_format, "text",
          "how lines of the log are written: text, or json, an object on each line");
ABSL_FLAG(std::string, termination_log, "",
          "file that is told in a sentence why the process ends, where it does so by itself: "
          "/dev/termination-log in a container of Kubernetes; none where empty");

namespace sluice {

absl::Status ApplyLogFlags() {
  LogWhatGrpcSays();
  const absl::Status log = SetTerminationLog(absl::GetFlag(FLAGS_termination_log));
  if (!log.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--termination_log: ", log.message()));
  }
  const absl::StatusOr<LogLevel> level = ParseLogLevel(absl::GetFlag(FLAGS_log_level));
  if (!level.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--log_level: ", level.status().message()));
  }
  const absl::StatusOr<LogFormat> format = ParseLogFormat(absl::GetFlag(FLAGS_log_format));
  if (!format.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--log_format: ", format.status().message()));
  }
  SetMinimumLogLevel(*level);
  SetLogFormat(*format);
  return absl::OkStatus();
}

int FailAtStart(const char* program, int exit_status, absl::string_view reason) {
  std::fprintf(stderr, "%s: %s\n", program, std::string(reason).c_str());
  WriteTerminationLog(reason);
  return exit_status;
}

}  // namespace sluice
