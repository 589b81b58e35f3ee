#include "clients/cli/outcome.h"

#include <string>

#include "absl/strings/string_view.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/terminal_text.h"
#include "services/messages/retry_info.h"
#include "services/process/termination_log.h"

namespace sluice {
namespace {

// What a status says may quote a file or another process.
std::string MessageOf(const absl::Status& status, const Environment& environment) {
  const std::string message(status.message());
  return environment.err_is_terminal ? Printable(message) : message;
}

}  // namespace

int Fail(const absl::Status& status, Environment& environment) {
  environment.out.flush();
  if (environment.interrupt.requested()) return environment.interrupt.exit_code();
  const std::string code = absl::StatusCodeToString(status.code());
  WriteTerminationLog(status.message().empty() ? code : status.message());
  environment.err << "sluice: " << MessageOf(status, environment)
                  << (status.message().empty() ? "" : " ") << "[" << code << "]";
  if (const std::optional<absl::Duration> delay = RetryDelay(status)) {
    environment.err << "; try again in " << absl::FormatDuration(*delay);
  }
  environment.err << std::endl;
  return kFailed;
}

int FailUsage(const std::string& command, const absl::Status& status, Environment& environment) {
  WriteTerminationLog(status.message());
  environment.err << "sluice " << command << ": " << MessageOf(status, environment) << "\nsluice "
                  << command << " --help explains the flags." << std::endl;
  return kUsage;
}

std::optional<int> ParseOrExit(FlagSet& flags, absl::Span<const std::string> arguments,
                               Environment& environment) {
  const absl::Status status = flags.Parse(arguments);
  if (!status.ok()) return FailUsage(flags.command(), status, environment);
  if (!flags.help_requested()) return std::nullopt;
  environment.out << flags.Help(HelpWidth(environment.columns));
  return Succeed(environment);
}

int Succeed(Environment& environment) {
  if (environment.out.flush()) return kSuccess;
  return Fail(absl::DataLossError("the result could not be written to stdout"), environment);
}

}  // namespace sluice
